"""Scores of a predictive distribution against the truth, point by point.

Inputs must agree exactly in dimensions and coordinates: nothing is broadcast, reordered by
label or cut to a common part. NaN gives NaN; what becomes of it is decided where scores are
averaged (:mod:`weatherpp.verify.aggregate`). All scores are float64 and, where their inputs
are lazy, lazy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from weatherpp import distribution
from weatherpp.errors import InputError
from weatherpp.families import FAMILIES
from weatherpp.verify import kernels

Array = NDArray[np.float64]
Choice = Literal["plain", "fair", "gaussian"]


def check_aligned(one: xr.DataArray, two: xr.DataArray, names: tuple[str, str]) -> None:
    """Refuse two fields that do not lie on exactly the same points and dates.

    Raises
    ------
    InputError
        Naming the dimension, and what was found on each side.
    """
    if set(one.dims) != set(two.dims):
        raise InputError(
            f"{names[0]} has the dimensions ({', '.join(map(str, one.dims))}), {names[1]} "
            f"({', '.join(map(str, two.dims))}); they must be the same"
        )
    for dim in one.dims:
        if one.sizes[dim] != two.sizes[dim]:
            raise InputError(
                f"'{dim}' has {one.sizes[dim]} values in {names[0]} and {two.sizes[dim]} in "
                f"{names[1]}; select the same ones first"
            )
    flat = ({"latitude", "longitude"} & set(one.coords) & set(two.coords)) - set(one.dims)
    for name in [*one.dims, *sorted(flat, key=str)]:
        if (name in one.coords) != (name in two.coords):
            raise InputError(f"only one of {names[0]} and {names[1]} has the coordinate '{name}'")
        if name not in one.coords:
            continue
        left, right = one[name], two[name].transpose(*one[name].dims)
        differ = left.values != right.values
        if np.any(differ):
            at = np.unravel_index(int(np.argmax(differ)), differ.shape)
            raise InputError(
                f"the coordinate '{name}' differs in {int(np.sum(differ))} of {differ.size} "
                f"values between {names[0]} and {names[1]}, first {left.values[at]} and "
                f"{right.values[at]}; select the same points and dates first"
            )


def _aligned(dist: xr.Dataset, truth: xr.DataArray) -> tuple[str, xr.DataArray]:
    """Form of the distribution, and the truth in its order of dimensions."""
    form, field = distribution.form_of(dist), distribution.pattern(dist)
    names = distribution.FORMS[form]
    for name in names[1:]:
        check_aligned(dist[names[0]], dist[name], (f"the {names[0]}", f"the {name}"))
    check_aligned(field, truth, ("the forecast", "the truth"))
    return form, truth.transpose(*field.dims)


def _pointwise(
    function: Callable[..., Array], *fields: xr.DataArray, over: str | None = None
) -> xr.DataArray:
    """Apply an array function; ``over`` is the last axis of the first field, if given."""
    first = fields[0]
    if over is not None and first.chunks is not None:
        first = first.chunk({over: -1})
    out: xr.DataArray = xr.apply_ufunc(
        function,
        first,
        *fields[1:],
        input_core_dims=[[over] if over else [], *([[]] * (len(fields) - 1))],
        join="exact",
        dask="parallelized",
        output_dtypes=[np.float64],
    )
    return out


def mean(dist: xr.Dataset) -> xr.DataArray:
    """Mean of the distribution in float64; NaN in any member gives NaN."""
    form = distribution.form_of(dist)
    if form in FAMILIES:
        return distribution.of_family(dist, FAMILIES[form].mean)
    return dist["value"].mean(
        distribution.ENSEMBLE_DIM[form], dtype=np.float64, skipna=False, keep_attrs=True
    )


def variance(dist: xr.Dataset) -> xr.DataArray:
    """Variance of the distribution in float64, units squared.

    Members give the unbiased one (divided by m - 1), quantiles that of their levels.

    Raises
    ------
    InputError
        There is one member only.
    """
    form = distribution.form_of(dist)
    units = distribution.mean(dist).attrs.get("units", "1")
    if form in FAMILIES:
        out = distribution.of_family(dist, FAMILIES[form].sd) ** 2
    else:
        dim = distribution.ENSEMBLE_DIM[form]
        if form == "members" and dist.sizes[dim] < 2:
            raise InputError("one member has no variance; give at least two members")
        ddof = 1 if form == "members" else 0
        out = dist["value"].var(dim, ddof=ddof, dtype=np.float64, skipna=False)
    return out.rename("variance").assign_attrs(units=f"({units})2")


def _gaussian(members: NDArray[Any], obs: NDArray[Any]) -> Array:
    centre = members.mean(axis=-1, dtype=np.float64)
    sd = members.std(axis=-1, ddof=1, dtype=np.float64)
    return kernels.crps_normal(centre, sd, obs)


def _crps_members(
    value: xr.DataArray, truth: xr.DataArray, estimator: Choice
) -> tuple[xr.DataArray, str]:
    m = value.sizes["number"]
    if estimator == "gaussian":
        if m < 2:
            raise InputError("a normal distribution cannot be fitted to one member")
        text = "normal distribution with the members' mean and unbiased standard deviation"
        return _pointwise(_gaussian, value, truth, over="number"), text
    if m == 1 and estimator == "fair":  # refused here too, before a lazy computation
        kernels.pair_weight(1, "fair")

    def ensemble(members: NDArray[Any], obs: NDArray[Any]) -> Array:
        return kernels.crps_ensemble(np.moveaxis(members, -1, 0), obs, estimator)

    text = "absolute error (one member)" if m == 1 else f"{estimator} ensemble CRPS"
    return _pointwise(ensemble, value, truth, over="number"), text


def _pinball(levels: Array) -> Callable[..., Array]:
    def function(value: NDArray[Any], obs: NDArray[Any]) -> Array:
        error = obs[..., None].astype(np.float64) - value
        loss: Array = np.maximum(levels * error, (levels - 1) * error)
        result: Array = 2 * loss.mean(axis=-1)
        return result

    return function


def crps(dist: xr.Dataset, truth: xr.DataArray, estimator: Choice | None = None) -> xr.DataArray:
    """Continuous ranked probability score of each point and date.

    Parameters
    ----------
    dist
        Predictive distribution: named families are scored in closed form; ``quantiles`` by twice
        the mean pinball loss over the levels, an approximation that improves with evenly spread
        levels; ``members`` by ``estimator``.
    truth
        Same dimensions (without ``number`` or ``quantile``) and coordinates, any order.
    estimator
        For members only: ``plain``, ``fair`` (see :mod:`weatherpp.verify.kernels`) or
        ``gaussian``, the closed form for a normal distribution with the members' mean and
        unbiased standard deviation. ``fair`` if not given.

    Returns
    -------
    float64 in the units of the truth; attributes ``estimator`` (short), ``method`` (in words),
    ``members`` and ``nan``.

    Raises
    ------
    InputError
        Not aligned, an estimator that does not fit the form or the number of members.
    """
    form, obs = _aligned(dist, truth)
    if form != "members" and estimator is not None:
        raise InputError(f"a {form} distribution has one CRPS; leave the estimator out")
    attrs: dict[str, Any] = {"units": truth.attrs.get("units", "1"), "nan": "propagated"}
    if form == "normal":
        score = _pointwise(kernels.crps_normal, dist["mean"], dist["spread"], obs)
        attrs |= {"estimator": "normal", "method": "closed form of the normal distribution"}
    elif form in FAMILIES:
        parameters = [dist[name].astype(np.float64) for name in distribution.FORMS[form]]
        score = _pointwise(FAMILIES[form].crps, obs.astype(np.float64), *parameters)
        attrs |= {"estimator": form, "method": f"closed form of the {form} distribution"}
    elif form == "quantiles":
        levels = np.asarray(dist["quantile"].values, np.float64)
        score = _pointwise(_pinball(levels), dist["value"], obs, over="quantile")
        attrs |= {"estimator": "pinball", "method": f"2 x mean pinball loss, {levels.size} levels"}
    else:
        choice: Choice = estimator or "fair"
        score, text = _crps_members(dist["value"], obs, choice)
        attrs |= {"estimator": choice, "method": text, "members": dist.sizes["number"]}
    return score.rename("crps").assign_attrs(attrs)


def estimators_of(dist: xr.Dataset) -> tuple[Choice | None, ...]:
    """Every estimator of the CRPS that the distribution can be scored with."""
    if distribution.form_of(dist) != "members":
        return (None,)
    return ("plain",) if dist.sizes["number"] == 1 else ("plain", "fair", "gaussian")


def error(dist: xr.Dataset, truth: xr.DataArray) -> xr.DataArray:
    """Mean of the distribution minus truth, float64, units of the truth."""
    _, obs = _aligned(dist, truth)
    out = mean(dist) - obs.astype(np.float64)
    return out.rename("error").assign_attrs(units=truth.attrs.get("units", "1"))


def squared_error(dist: xr.Dataset, truth: xr.DataArray) -> xr.DataArray:
    """Square of :func:`error`, units squared."""
    out = error(dist, truth) ** 2
    return out.rename("squared_error").assign_attrs(units=f"({truth.attrs.get('units', '1')})2")


def spread_squared_error(dist: xr.Dataset, full_spread: xr.DataArray) -> xr.DataArray:
    """Squared difference of the predicted spread and that of the full ensemble.

    Parameters
    ----------
    dist
        Predictive distribution.
    full_spread
        Standard deviation (divided by m - 1) of the full ensemble, same points and dates.

    Returns
    -------
    float64, units squared.
    """
    _, reference = _aligned(dist, full_spread)
    out = (variance(dist) ** 0.5 - reference.astype(np.float64)) ** 2
    units = full_spread.attrs.get("units", "1")
    return out.rename("spread_squared_error").assign_attrs(units=f"({units})2")


def _rank_counts(members: NDArray[Any], obs: NDArray[Any], weights: Array) -> Array:
    """Weight that falls in each of the m + 1 ranks; a tie counts evenly in all its ranks."""
    m = members.shape[-1]
    below = (members < obs[..., None]).sum(axis=-1).ravel()
    ties = (members == obs[..., None]).sum(axis=-1).ravel()
    share = weights.ravel() / (ties + 1)
    change = np.bincount(below, share, m + 2) - np.bincount(below + ties + 1, share, m + 2)
    counts: Array = np.cumsum(change)[: m + 1]
    return counts


def _pit_counts(dist: xr.Dataset, obs: xr.DataArray, weights: Array, bins: int) -> Array:
    """Weight that falls in each bin of the PIT; where it is an interval, evenly over that."""
    form = distribution.form_of(dist)
    names = distribution.FORMS[form]
    parameters = [dist[name].transpose(*obs.dims).values.astype(np.float64) for name in names]
    lower, upper = FAMILIES[form].pit(obs.values.astype(np.float64), *parameters)
    single = ~(upper > lower)
    counts, _ = np.histogram(upper[single], bins, (0, 1), weights=weights[single])
    low, width, weight = lower[~single], (upper - lower)[~single], weights[~single]
    below = [
        float((weight * np.clip((edge - low) / width, 0, 1)).sum())
        for edge in np.linspace(0, 1, bins + 1)
    ]
    result: Array = counts + np.diff(below)
    return result


def ranks(
    dist: xr.Dataset,
    truth: xr.DataArray,
    weights: xr.DataArray | None = None,
    bins: int = 20,
    nan_policy: Literal["raise", "omit"] = "raise",
) -> xr.DataArray:
    """Rank histogram, or for a named family the histogram of the PIT.

    Parameters
    ----------
    dist, truth
        As in :func:`crps`.
    weights
        Not negative, with dimensions of the truth; equal if not given.
    bins
        Number of bins of the probability integral transform (PIT) of a named family.
    nan_policy
        ``omit`` leaves out pairs with NaN in the forecast or the truth.

    Returns
    -------
    (rank,) float64, relative frequencies that sum to one; the coordinate ``expected`` is what
    a calibrated forecast gives. An observation equal to k members counts evenly in the k + 1
    ranks it may take, and one whose value has a probability above zero evenly over the PIT that
    it may have (Czado, C., Gneiting, T. and Held, L. (2009), Biometrics 65, 1254-1261).

    Raises
    ------
    InputError
        Not aligned, NaN in the forecast or the truth under ``raise``, or no pair is left.
    """
    form, obs = _aligned(dist, truth)
    w = xr.ones_like(obs, dtype=np.float64) if weights is None else weights.broadcast_like(obs)
    flat = w.transpose(*obs.dims).values.astype(np.float64)
    there = obs.notnull()
    for name in distribution.FORMS[form]:
        there &= dist[name].notnull().all([d for d in dist[name].dims if d not in obs.dims])
    if nan_policy == "raise" and not bool(there.all()):
        raise InputError("rank histogram: NaN in the forecast or the truth; select valid points")
    flat = np.where(there.transpose(*obs.dims).values, flat, 0.0)
    if not flat.any():
        raise InputError("rank histogram: no point has both a forecast and a truth")
    if form in FAMILIES:
        counts = _pit_counts(dist, obs, flat, bins)
        expected = np.full(bins, 1 / bins)
    else:
        value = dist["value"].transpose(*obs.dims, distribution.ENSEMBLE_DIM[form]).values
        counts = _rank_counts(value, obs.values, flat)
        if form == "members":
            expected = np.full(counts.size, 1 / counts.size)
        else:
            expected = np.diff(np.concatenate([[0.0], dist["quantile"].values, [1.0]]))
    return xr.DataArray(
        counts / counts.sum(),
        dims="rank",
        coords={"rank": np.arange(counts.size), "expected": ("rank", expected)},
        name="frequency",
        attrs={"histogram": "PIT" if form in FAMILIES else "rank", "ties": "spread evenly"},
    )
