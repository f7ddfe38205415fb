"""Members with the structure of a template from any predictive distribution.

A method that predicts each point by itself says nothing of how points, variables and lead times
go together. Here each point gets as many values as the template has members, drawn from its
predictive distribution, and they are handed to the members in the order that the template has
there: the ranks, and with them the dependence, are the template's, the values the distribution's.

Ensemble copula coupling (ECC) takes the raw members as the template, the Schaake shuffle takes
past analyses.

References
----------
Schefzik, R., Thorarinsdottir, T. L. and Gneiting, T. (2013), Statist. Sci. 28, 616-640,
doi:10.1214/13-STS443.
Clark, M. et al. (2004), J. Hydrometeor. 5, 243-262, for the Schaake shuffle.
Bröcker, J. (2012), Q. J. R. Meteorol. Soc. 138, 1611-1617, for the levels of ``quantiles``.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from weatherpp import distribution
from weatherpp.errors import InputError
from weatherpp.methods.season import days_apart
from weatherpp.verify.alignment import check_aligned

Draw = Literal["quantiles", "random", "stratified"]
Floats = NDArray[np.float64]


def _generator(seed: int, time: np.datetime64, what: int) -> np.random.Generator:
    """Random numbers of one date, the same whatever other dates are there."""
    nanoseconds = int(pd.Timestamp(time).as_unit("ns").value)
    return np.random.default_rng([seed, what, nanoseconds % 2**64])


def levels_of(count: int, draw: Draw, generator: np.random.Generator) -> Floats:
    """Ascending levels within (0, 1) at which a distribution is read.

    Parameters
    ----------
    count
        How many.
    draw
        ``quantiles`` (ECC-Q): (k - 1/2) / count, which give the least CRPS of all sets of
        ``count`` values (Bröcker 2012; k / (count + 1), also in use, has too little spread for
        few members). ``random`` (ECC-R): drawn evenly. ``stratified`` (ECC-S): one in each of
        ``count`` equal parts.
    generator
        Of random numbers; not used for ``quantiles``.
    """
    if draw == "quantiles":
        return (np.arange(count) + 0.5) / count
    # never 0 or 1, where a normal distribution has no quantile
    even = 1.0 - generator.random(count)
    even = np.minimum(even, 1.0 - 2.0**-53)
    if draw == "random":
        return np.sort(even)
    stratified: Floats = (np.arange(count) + even) / count
    return np.minimum(stratified, 1.0 - 2.0**-53)


def _values(dist: xr.Dataset, count: int, draw: Draw, seed: int) -> xr.DataArray:
    """Quantiles at the levels drawn, ascending along a new dimension ``drawn``.

    All points of a date are read at the same levels, so that fields stay smooth.
    """
    lowest, highest = 0.0, 1.0
    if distribution.form_of(dist) == "quantiles":  # nothing is known beyond the outermost
        lowest, highest = (float(dist["quantile"][end]) for end in (0, -1))

    def read(part: xr.Dataset, levels: Floats) -> xr.DataArray:
        out = distribution.quantile(part, levels.clip(lowest, highest).tolist())
        return out.rename(quantile="drawn").drop_vars("drawn")

    if draw == "quantiles":
        return read(dist, levels_of(count, draw, np.random.default_rng(seed)))
    parts = [
        read(dist.isel(time=[at]), levels_of(count, draw, _generator(seed, time, 0)))
        for at, time in enumerate(dist["time"].values)
    ]
    return xr.concat(parts, "time")


def _reorder(
    values: NDArray[Any], template: NDArray[Any], order: NDArray[np.int64], dtype: np.dtype[Any]
) -> NDArray[Any]:
    """Ascending ``values`` in the order of ``template``, both (..., member), as ``dtype``.

    Ties of the template are resolved in the ``order`` of its members.
    """
    shape = np.broadcast_shapes(values.shape, template.shape)
    order = np.broadcast_to(order, shape)
    template = np.take_along_axis(np.broadcast_to(template, shape), order, axis=-1)
    member = np.take_along_axis(order, template.argsort(axis=-1, kind="stable"), axis=-1)
    out = np.empty(shape, dtype)
    np.put_along_axis(out, member, np.broadcast_to(values, shape), axis=-1)
    out[np.isnan(template).any(axis=-1)] = np.nan
    return out


def couple(
    dist: xr.Dataset, template: xr.DataArray, draw: Draw = "quantiles", seed: int = 1
) -> xr.Dataset:
    """Members whose values are the distribution's and whose order is the template's.

    Parameters
    ----------
    dist
        Predictive distribution of any form, dims (time, grid...).
    template
        Dims (time, number, grid...), the same dates and points; raw members for ECC, the result
        of :func:`past_template` for the Schaake shuffle. Units do not matter.
    draw
        See :func:`levels_of`.
    seed
        Of the levels and of the order in which ties of the template are resolved; both depend on
        the seed and the date alone, and are the same at all points.

    Returns
    -------
    Distribution of members in the units and type of ``dist``, lazy if ``dist`` or ``template``
    is; NaN where either is.

    Raises
    ------
    InputError
        Dates or points of the two differ, or the template has no members.
    """
    if "number" not in template.dims:
        raise InputError("the template of a coupling needs members (dimension 'number')")
    count = template.sizes["number"]
    field = distribution.pattern(dist)
    check_aligned(field, template.isel(number=0, drop=True), ("the distribution", "the template"))
    dims = field.dims
    values = _values(dist, count, draw, seed).transpose(*dims, "drawn")
    ranked = template.transpose(*dims, "number")
    if ranked.chunks is not None:
        ranked = ranked.chunk(number=-1)
    order = [_generator(seed, time, 1).permutation(count) for time in field["time"].values]
    out: xr.DataArray = xr.apply_ufunc(
        _reorder,
        values,
        ranked.drop_vars(ranked.coords),
        xr.DataArray(np.stack(order), dims=("time", "number")),
        kwargs={"dtype": field.dtype},
        input_core_dims=[["drawn"], ["number"], ["number"]],
        output_core_dims=[["number"]],
        dask="parallelized",
        dask_gufunc_kwargs={"allow_rechunk": True},
        output_dtypes=[field.dtype],
    )
    out = out.assign_coords(number=template["number"].values)
    out = out.transpose(dims[0], "number", *dims[1:]).assign_attrs(values.attrs)
    return distribution.members(out, **{k: v for k, v in dist.attrs.items() if k != "distribution"})


def past_dates(
    times: pd.DatetimeIndex, past: pd.DatetimeIndex, count: int, window: float | None, seed: int
) -> NDArray[np.int64]:
    """Which past dates stand for the members of each date, drawn without replacement.

    Parameters
    ----------
    times
        Dates to make members for.
    past
        Dates to draw from.
    count
        Members a date.
    window
        Draw from dates no more than so many days of the year away, in any year; None draws from
        all. Where fewer than ``count`` are that near, the nearest ``count`` are taken.
    seed
        The draw depends on it, the date and ``past`` alone: it is the same for every variable
        and lead time, which so keep their relations.

    Returns
    -------
    (times, count) positions in ``past``.

    Raises
    ------
    InputError
        There are fewer than ``count`` past dates.
    """
    if count > len(past):
        raise InputError(
            f"the Schaake shuffle is to make {count} members from {len(past)} training dates; "
            "ask for fewer members"
        )
    day = past.day_of_year.to_numpy(dtype=np.float64)
    rows = []
    for time in times:
        generator = _generator(seed, time.to_datetime64(), 2)
        away = days_apart(day, time.day_of_year)
        nearest = np.argsort(away, kind="stable")
        within = len(past) if window is None else int(np.sum(away <= window))
        rows.append(generator.permutation(nearest[: max(within, count)])[:count])
    return np.stack(rows)


def past_template(
    analyses: xr.DataArray,
    times: pd.DatetimeIndex,
    count: int,
    window: float | None = 30.0,
    seed: int = 1,
) -> xr.DataArray:
    """Template of the Schaake shuffle: past analyses as members.

    Parameters
    ----------
    analyses
        Analyses of the training period, dims (time, grid...), ``time`` the initial dates of the
        forecasts they verify.
    times, count, window, seed
        As for :func:`past_dates`.

    Returns
    -------
    Dims (time, number, grid...), numbers 1 to ``count``; lazy if ``analyses`` is.

    Raises
    ------
    InputError
        There are fewer than ``count`` dates.
    """
    past = pd.DatetimeIndex(analyses["time"].values)
    at = past_dates(times, past, count, window, seed)
    bare = analyses.drop_vars([str(c) for c, v in analyses.coords.items() if "time" in v.dims])
    out = bare.isel(time=xr.DataArray(at, dims=("now", "number"))).rename(now="time")
    return out.assign_coords(time=times, number=np.arange(1, count + 1))
