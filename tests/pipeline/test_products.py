"""Products of the named families: written, read back, complete."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from weatherpp import distribution
from weatherpp.families import FAMILIES
from weatherpp.pipeline.products import product, read_product, write_product


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
