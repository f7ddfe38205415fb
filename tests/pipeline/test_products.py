"""Products of the named families: written, read back, complete."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from synthetic import make_datasets

from weatherpp import distribution
from weatherpp.errors import ConfigError, InputError
from weatherpp.families import FAMILIES
from weatherpp.methods.base import method_class
from weatherpp.pipeline.products import apply_model, product, read_product, write_product
from weatherpp.recipe import Target


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_product_of_a_family(name: str, tmp_path: Path) -> None:
    coords = {"time": pd.date_range("2020-01-01", periods=3), "station": ["a", "b"]}
    like = xr.DataArray(
        np.full((3, 2), 1.5, np.float32), coords, list(coords), attrs={"units": "m s-1"}
    )
    parameters = dict.fromkeys(FAMILIES[name].parameters, like)
    made = product(distribution.parametric(name, parameters, like, variable="u10"), (0.1, 0.9))
    write_product(made, tmp_path / "out.nc")
    found = read_product(tmp_path / "out.nc")
    assert distribution.form_of(found) == name
    assert found.attrs["Conventions"] == "CF-1.11"
    for key in ("mean", "spread", "quantiles"):
        assert found[key].attrs["units"] == "m s-1"
        assert found[key].dtype == np.float32
    xr.testing.assert_allclose(distribution.mean(found), made["mean"])
    assert float((found["quantiles"][1] - found["quantiles"][0]).min()) > 0


@pytest.mark.parametrize("output", ["/proc/out.nc", f"{'x' * 300}.nc"])
def test_an_output_that_cannot_be_written_is_wrong_usage(output: str, tiny: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be written .*; name another file to write"):
        apply_model(tiny / "model", tiny / "forecast.nc", Path(output))


def test_what_is_wrong_with_a_forecast_names_its_file(tiny: Path, tmp_path: Path) -> None:
    path = tmp_path / "early.nc"
    with xr.open_dataset(tiny / "forecast.nc", decode_timedelta=True) as ds:
        ds.isel(step=[0]).to_netcdf(path)
    with pytest.raises(InputError, match=r"early\.nc: z at lead time 48 h is not in the data"):
        apply_model(tiny / "model", path, tmp_path / "out.nc")
    assert not (tmp_path / "out.nc").exists()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of method raw and a forecast that it can be applied to."""
    folder = tmp_path_factory.mktemp("apply")
    make_datasets(dates=2, shape=(4, 8))[0].to_netcdf(folder / "forecast.nc")
    method_class("raw")(Target(variable="z", level=500, step="48h")).save(folder / "model", {})
    return folder
