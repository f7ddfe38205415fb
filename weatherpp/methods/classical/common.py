"""What the classical methods share: their training sample, and parameters as netCDF."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from weatherpp.data import netcdf
from weatherpp.data.fields import select
from weatherpp.errors import InputError
from weatherpp.methods.base import FitData, Method
from weatherpp.recipe import Target

FILE = "parameters.nc"


class ParameterMethod(Method):
    """Method whose parameters are one Dataset of fields, kept in :data:`FILE`."""

    parameters: xr.Dataset | None = None

    def fitted(self) -> xr.Dataset:
        """The parameters.

        Raises
        ------
        InputError
            Not fitted yet.
        """
        if self.parameters is None:
            raise InputError(f"method {self.name} is not fitted; fit or load it first")
        return self.parameters

    def _save(self, folder: Path) -> dict[str, Any]:
        parameters = self.fitted()
        netcdf.write(parameters, folder / FILE)
        # counts such as points that did not converge; numpy's numbers once read back from a file
        return {str(k): np.asarray(v).item() for k, v in parameters.attrs.items()}

    def _load(self, folder: Path, extra: dict[str, Any]) -> None:
        self.parameters = xr.load_dataset(folder / FILE, engine="netcdf4")

    def dist_attrs(self) -> dict[str, str]:
        """Attributes of this method's predictive distributions."""
        return dist_attrs(self.target, self.name)


def dist_attrs(target: Target, method: str) -> dict[str, str]:
    """Attributes of a predictive distribution."""
    return {"variable": target.variable, "target": target.name, "method": method}


def target_members(forecast: xr.Dataset, target: Target) -> xr.DataArray:
    """The target field of a canonical forecast, (time, number, grid...), lazy."""
    return select(forecast, target.variable, target.level, target.lead)


def on_dates(field: xr.DataArray, times: pd.DatetimeIndex, what: str) -> xr.DataArray:
    """``field`` at exactly ``times``.

    Raises
    ------
    InputError
        No dates are asked for, or one is not there.
    """
    if len(times) == 0:
        raise InputError(f"{what}: there are no training dates")
    missing = times.difference(pd.DatetimeIndex(field["time"].values))
    if len(missing):
        raise InputError(f"{what}: no data for the training date {missing[0]}")
    return field.sel(time=times)


def training_truth(data: FitData, method: str) -> xr.DataArray:
    """Analysis at the training dates, loaded, (time, grid...).

    Raises
    ------
    InputError
        There is none, a date is missing, or values are NaN.
    """
    if data.truth is None:
        raise InputError(f"method {method} learns from analyses, and there are none")
    return complete(on_dates(data.truth, data.train, "analysis").load(), "analysis")


def complete(field: xr.DataArray, what: str) -> xr.DataArray:
    """``field``, refused if a value is NaN or infinite."""
    bad = field.copy(data=~np.isfinite(field.values))
    if bool(bad.any()):
        by_date = bad.any([dim for dim in bad.dims if dim != "time"])
        first = pd.Timestamp(field["time"].values[by_date.values][0])
        name = f" of {field.name}" if field.name else ""
        raise InputError(
            f"{what}{name}: {int(bad.sum())} of {field.size} training values are missing, first on "
            f"{first:%Y-%m-%d %H:%M} UTC; leave such dates or points out, or fill them"
        )
    return field


def same_grid(parameters: xr.Dataset, field: xr.DataArray) -> None:
    """Refuse a field on another grid than the parameters.

    Raises
    ------
    InputError
        Naming the dimension that differs.
    """
    for dim, size in parameters.sizes.items():
        if field.sizes.get(dim) != size:
            raise InputError(
                f"the model has {size} values of '{dim}', the forecast {field.sizes.get(dim, 0)}"
            )
        if dim in parameters.coords and not np.array_equal(parameters[dim], field[dim]):
            raise InputError(f"the model was fitted on another grid: '{dim}' differs")
