"""What needs no model: the configuration, the recipe's source, the message without the extra."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from weatherpp.data.shipped import shipped_folder
from weatherpp.errors import ConfigError
from weatherpp.recipe import Recipe, SpeedySource, YearSplit, load_recipe
from weatherpp.speedy import SpeedyConfig, generate
from weatherpp.strict import validate


def test_sizes() -> None:
    small, full = SpeedyConfig(), SpeedyConfig(size="full", members=20)
    assert (small.number_of_years * small.number_of_dates, small.number_of_members) == (30, 5)
    assert small.wavenumbers == 21
    assert full.number_of_years * full.number_of_dates >= 100
    assert (full.number_of_members, full.wavenumbers) == (20, 31)
    assert small.content() == SpeedyConfig(members=5, years=3).content()


@pytest.mark.parametrize("name", ["speedy", "speedy_full"])
def test_recipes(name: str) -> None:
    recipe = load_recipe(shipped_folder("pipelines") / f"{name}.yaml")
    assert isinstance(recipe.source, SpeedySource)
    config = validate(SpeedyConfig, recipe.source.speedy, "source.speedy")
    years = range(config.first_year, config.first_year + config.number_of_years)
    if isinstance(recipe.split, YearSplit):
        named = [year for part in recipe.split.model_dump().values() for year in part]
        assert set(named) <= set(years)
    assert {target.name for target in recipe.targets} == {"t850", "z500", "t2m", "u10", "tp"}


def test_faults_of_a_recipe_name_the_key() -> None:
    data = {
        "name": "x",
        "source": {"speedi": {"size": "small"}},
        "targets": [{"variable": "t2m", "step": "24h"}],
        "methods": [{"label": "raw", "method": "raw"}],
    }
    with pytest.raises(ConfigError, match="did you mean 'speedy'"):
        validate(Recipe, data, "x.yaml")
    with pytest.raises(ConfigError, match=r"source\.speedy: unknown key 'member'.*'members'"):
        validate(SpeedyConfig, {"member": 3}, "source.speedy")


def test_without_the_extra_one_line_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "jcm", None)  # as if it were not installed
    with pytest.raises(ConfigError) as error:
        generate(tmp_path / "a.zarr", SpeedyConfig())
    assert str(error.value) == "source.speedy needs the extra: pip install 'weatherpp[speedy]'"
    assert not list(tmp_path.iterdir())
