"""What the classical methods share: their training sample, and parameters as netCDF."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from pydantic import Field

from weatherpp.conventions import has_gaps
from weatherpp.data import netcdf
from weatherpp.data.fields import ensemble_mean, select
from weatherpp.errors import InputError
from weatherpp.methods.base import FitData, Method
from weatherpp.recipe import Target
from weatherpp.strict import Strict
from weatherpp.verify.alignment import check_aligned

FILE = "parameters.nc"


class PointSettings(Strict):
    """Setting of methods with parameters of their own at each point."""

    least_dates: int = Field(
        default=10,
        ge=2,
        description="points with gaps and fewer training dates take the parameters of all points "
        "together",
    )


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

    def notes(self) -> list[str]:
        """Counts of points that needed help."""
        return [f"{name}: {value}" for name, value in self.fitted().attrs.items()]

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
    """Analysis at the training dates, loaded, (time, grid...); NaN only where gaps are meant.

    Raises
    ------
    InputError
        There is none, a date is missing, or values are.
    """
    if data.truth is None:
        raise InputError(f"method {method} learns from analyses, and there are none")
    return complete(on_dates(data.truth, data.train, "analysis").load(), "analysis")


def training_pairs(data: FitData, method: str) -> tuple[xr.DataArray, xr.DataArray]:
    """Mean of the members and analysis at the training dates, loaded, (time, grid...).

    Where gaps are meant, both are NaN where either is (the mean is where any member is).

    Raises
    ------
    InputError
        There is no analysis, a date or values are missing, the grids differ, or no pair is left.
    """
    truth = training_truth(data, method)
    members = on_dates(target_members(data.forecast, data.target), data.train, "forecast")
    mean = complete(ensemble_mean(members).load(), "forecast")
    check_aligned(mean, truth, ("the forecast", "the analysis"))
    if not (has_gaps(mean) or has_gaps(truth)):
        return mean, truth
    both = mean.notnull() & truth.notnull()
    if not bool(both.any()):
        raise InputError(f"method {method}: no training date has both a forecast and an analysis")
    return mean.where(both), truth.where(both)


def too_few(there: xr.DataArray, least: int) -> xr.DataArray:
    """Points where ``there`` (time, grid...) is true on too few dates for parameters of their own.

    Too few are fewer than ``least``, or than all of them where these are fewer still; so none
    are where nothing is missing.
    """
    return there.sum("time") < min(least, there.sizes["time"])


def thinned(there: NDArray[np.bool_], most: int) -> slice:
    """What takes, evenly spaced, no more than ``most`` of the places where ``there`` is true."""
    return slice(None, None, max(1, -(-int(there.sum()) // most)))


def complete(field: xr.DataArray, what: str) -> xr.DataArray:
    """``field``, refused if a value is NaN, unless gaps are meant, or infinite."""
    bad = field.copy(data=np.isinf(field.values) if has_gaps(field) else ~np.isfinite(field.values))
    if bool(bad.any()):
        by_date = bad.any([dim for dim in bad.dims if dim != "time"])
        first = pd.Timestamp(field["time"].values[by_date.values][0])
        name = f" of {field.name}" if field.name else ""
        kind = "missing" if np.isnan(field.values[bad.values]).any() else "infinite"
        raise InputError(
            f"{what}{name}: {int(bad.sum())} of {field.size} training values are {kind}, first on "
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
