"""Members in the products of a recipe: made where they can be, refused where not."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats

from weatherpp import distribution
from weatherpp.data.archive import Archive
from weatherpp.data.fields import ensemble_mean, ensemble_spread, select, subsample
from weatherpp.data.matching import truth_for
from weatherpp.errors import ConfigError, InputError
from weatherpp.methods.copula import past_dates
from weatherpp.pipeline.coupling import check_members, with_members
from weatherpp.pipeline.products import product, read_product, write_product
from weatherpp.recipe import MemberChoice, Recipe
from weatherpp.strict import validate

FIVE = {"choose": "first", "count": 5}


def recipe(members: dict[str, Any] | None, **changes: Any) -> Recipe:
    content = {
        "name": "r",
        "source": {"catalog": "tiny"},
        "targets": [{"variable": "z", "level": 500, "step": "48h"}],
        "split": {"train": [2001, 2001], "valid": [2002, 2002], "test": [2003, 2003]},
        "methods": [{"label": "emos-5", "method": "emos", "members": FIVE}],
        "products": {"members": members},
        **changes,
    }
    return validate(Recipe, content, "recipe")


def prediction(archive: Archive) -> tuple[xr.Dataset, xr.Dataset]:
    """A normal distribution of the last year, and the members it was made from."""
    ds = subsample(archive.forecast, MemberChoice(**FIVE), 1).sel(time="2003")
    members = select(ds, "z", 500, "48h").load()
    attrs = {"variable": "z", "target": "z500"}
    return distribution.normal(ensemble_mean(members), ensemble_spread(members), **attrs), ds


def times_of(archive: Archive, year: str) -> pd.DatetimeIndex:
    return pd.DatetimeIndex(archive.forecast["time"].sel(time=year).values)


@pytest.mark.parametrize("coupling", ["ecc-q", "ecc-r", "ecc-s"])
def test_product_file_holds_members_in_the_order_of_the_raw_ones(
    tiny_archive: Archive, coupling: str, tmp_path: Path
) -> None:
    dist, raw = prediction(tiny_archive)
    job = recipe({"coupling": coupling})
    check_members(job, tiny_archive)
    train = times_of(tiny_archive, "2001")
    out = with_members(dist, raw, tiny_archive, job.targets[0], train, job)
    write_product(product(out, (0.1, 0.9)), tmp_path / "out.nc")
    found = read_product(tmp_path / "out.nc")
    assert distribution.form_of(found) == "normal"
    assert found["members"].attrs["coupling"] == coupling
    assert found["members"].attrs["units"] == "m2 s-2"
    assert found["members"].dtype == np.float32
    template = select(raw, "z", 500, "48h").values
    order = template.argsort(axis=1)
    value, key = (np.take_along_axis(v, order, axis=1) for v in (found["members"].values, template))
    tied = np.diff(key, axis=1) == 0
    assert tied.mean() < 1e-3
    assert ((np.diff(value, axis=1) >= 0) | tied).all()
    assert {"mean", "spread", "quantiles"} <= set(found.data_vars)


def test_schaake_takes_the_order_of_training_analyses(tiny_archive: Archive) -> None:
    dist, raw = prediction(tiny_archive)
    job = recipe({"coupling": "schaake", "count": 8, "window": 20})
    check_members(job, tiny_archive)
    train = times_of(tiny_archive, "2001")
    found = with_members(dist, raw, tiny_archive, job.targets[0], train, job)["members"]
    assert found.sizes["number"] == 8
    assert tiny_archive.analysis is not None
    past = truth_for(tiny_archive.analysis, job.targets[0], train).values
    at = past_dates(times_of(tiny_archive, "2003"), train, 8, 20.0, job.seed)
    ranks = [stats.rankdata(values, axis=1) for values in (found.values, past[at])]
    np.testing.assert_array_equal(*ranks)
    with pytest.raises(InputError, match="8 members from 3 training dates"):
        with_members(dist, raw, tiny_archive, job.targets[0], train[:3], job)


def test_nothing_is_added_to_members_or_unless_asked(tiny_archive: Archive) -> None:
    dist, raw = prediction(tiny_archive)
    members = distribution.members(select(raw, "z", 500, "48h"))
    train = times_of(tiny_archive, "2001")
    for given, job in ((members, recipe({"coupling": "ecc-q"})), (dist, recipe(None))):
        check_members(job, tiny_archive)
        same = with_members(given, raw, tiny_archive, job.targets[0], train, job)
        xr.testing.assert_identical(same, given)


@pytest.mark.parametrize(
    ("members", "changes", "message"),
    [
        ({"coupling": "ecc-q", "count": 6}, {}, "6 members or more .* emos-5 sees 5"),
        (
            {"coupling": "ecc-q"},
            {"methods": [{"label": "one", "method": "raw", "members": {"count": 1}}]},
            "2 members or more .* one sees 1",
        ),
        ({"coupling": "schaake", "count": 5}, {"split": None}, "the recipe has no split"),
        ({"coupling": "schaake"}, {}, "schaake needs a count"),
        ({"coupling": "ecc-q", "window": 3}, {}, "window goes with coupling: schaake"),
        ({"coupling": "ecc"}, {}, "coupling"),
    ],
)
def test_what_cannot_be_is_refused(
    tiny_archive: Archive, members: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        check_members(recipe(members, **changes), tiny_archive)


def test_schaake_without_analyses_is_refused(tiny_archive: Archive, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(tiny_archive.path, bare, ignore=shutil.ignore_patterns("analysis"))
    with pytest.raises(InputError, match=r"bare: no analyses .* take one of ecc-q"):
        check_members(recipe({"coupling": "schaake", "count": 5}), Archive.open(bare))
