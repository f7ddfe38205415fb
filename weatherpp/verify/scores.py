"""Scores of a predictive distribution against the truth, point by point.

Inputs must agree exactly in dimensions and coordinates: nothing is broadcast, reordered by
label or cut to a common part. NaN gives NaN unless a ``nan_policy`` says otherwise; what becomes
of a NaN score is decided where scores are averaged (:mod:`weatherpp.verify.averages`,
:mod:`weatherpp.verify.aggregate`). All scores are float64 and, where their inputs are lazy, lazy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from weatherpp import distribution
from weatherpp.errors import InputError
from weatherpp.families import FAMILIES
from weatherpp.verify import kernels
from weatherpp.verify.alignment import aligned, check_form
from weatherpp.verify.kernels import ALPHA, NanPolicy

Array = NDArray[np.float64]
Choice = Literal["plain", "fair", "almost-fair", "gaussian"]


def spread_estimator(dist: xr.Dataset) -> str:
    """By what the variance of a distribution is told, for the attribute ``estimator``."""
    form = distribution.form_of(dist)
    return {"members": "unbiased", "quantiles": "levels"}.get(form, form)


def quantile_estimator(dist: xr.Dataset) -> str:
    """By what quantiles of a distribution are told, for the attribute ``estimator``."""
    form = distribution.form_of(dist)
    return {"members": "linear", "quantiles": "levels"}.get(form, form)


def pointwise(
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
    form = check_form(dist)
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
    form = check_form(dist)
    units = distribution.mean(dist).attrs.get("units", "1")
    if form in FAMILIES:
        out = distribution.of_family(dist, FAMILIES[form].sd) ** 2
    else:
        dim = distribution.ENSEMBLE_DIM[form]
        if form == "members" and dist.sizes[dim] < 2:
            raise InputError("one member has no variance; give at least two members")
        ddof = 1 if form == "members" else 0
        out = dist["value"].var(dim, ddof=ddof, dtype=np.float64, skipna=False)
    attrs = {"units": f"({units})2", "estimator": spread_estimator(dist)}
    return out.rename("variance").assign_attrs({**attrs, "nan_policy": "propagate"})


def expected_squared_error(dist: xr.Dataset) -> xr.DataArray:
    """What the squared error of the mean would be on average, were the forecast calibrated.

    The variance; of m members (m + 1) / m times the unbiased one, as their mean errs as well
    (Fortin, V. et al. (2014), J. Hydrometeor. 15, 1708-1713). float64, units squared.

    Raises
    ------
    InputError
        There is one member only.
    """
    out = variance(dist)
    if distribution.form_of(dist) == "members":
        m = dist.sizes["number"]
        out = (out * ((m + 1) / m)).assign_attrs(out.attrs)
    return out.rename("expected_squared_error")


def refuse_nan(
    score: xr.DataArray, nan_policy: NanPolicy, known: Sequence[str] = get_args(NanPolicy)
) -> xr.DataArray:
    """The score itself; under the policy ``raise`` refused where it is NaN.

    A lazy score is refused when it is computed. ``known`` are the policies that the score has.

    Raises
    ------
    InputError
        NaN under ``raise``; no such policy.
    """
    kernels.check_policy(nan_policy, known)
    if nan_policy != "raise":
        return score
    name = str(score.name or "score")
    other = "omit" if "omit" in known else "propagate"

    def check(values: Array) -> Array:
        bad = int(np.isnan(values).sum())
        if bad:
            raise InputError(
                f"{bad} of {values.size} values of {name} are NaN; select valid points or ask "
                f"for nan_policy '{other}'"
            )
        return values

    return pointwise(check, score).assign_attrs(score.attrs)


def _gaussian(members: NDArray[Any], obs: NDArray[Any], omit: bool) -> Array:
    x = members.astype(np.float64)
    there = ~np.isnan(x) if omit else np.ones(x.shape, bool)
    count = there.sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        centre = np.where(there, x, 0.0).sum(axis=-1) / count
        squares = np.where(there, x - centre[..., None], 0.0) ** 2
        sd = np.sqrt(squares.sum(axis=-1) / (count - 1))
    return kernels.crps_normal(centre, sd, obs)


def _crps_members(
    value: xr.DataArray, truth: xr.DataArray, estimator: Choice, alpha: float, policy: NanPolicy
) -> tuple[xr.DataArray, str]:
    m = value.sizes["number"]
    keep: NanPolicy = "omit" if policy == "omit" else "propagate"  # NaN scores are refused after
    if estimator == "gaussian":
        if m < 2:
            raise InputError("a normal distribution cannot be fitted to one member")

        def normal(members: NDArray[Any], obs: NDArray[Any]) -> Array:
            return _gaussian(members, obs, policy == "omit")

        text = "normal distribution with the members' mean and unbiased standard deviation"
        return pointwise(normal, value, truth, over="number"), text
    kernels.pair_weight(m, estimator, alpha)  # refused here too, before a lazy computation

    def ensemble(members: NDArray[Any], obs: NDArray[Any]) -> Array:
        x = np.moveaxis(members, -1, 0)
        return kernels.crps_ensemble(x, obs, estimator, alpha=alpha, nan_policy=keep)

    text = "absolute error (one member)" if m == 1 else f"{estimator} ensemble CRPS"
    text += f", alpha {alpha:g}" if estimator == "almost-fair" else ""
    return pointwise(ensemble, value, truth, over="number"), text


def _pinball(levels: Array) -> Callable[..., Array]:
    def function(value: NDArray[Any], obs: NDArray[Any]) -> Array:
        error = obs[..., None].astype(np.float64) - value
        loss: Array = np.maximum(levels * error, (levels - 1) * error)
        result: Array = 2 * loss.mean(axis=-1)
        return result

    return function


def crps(
    dist: xr.Dataset,
    truth: xr.DataArray,
    estimator: Choice | None = None,
    *,
    alpha: float = ALPHA,
    nan_policy: NanPolicy = "propagate",
) -> xr.DataArray:
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
        For members only: ``plain``, ``fair``, ``almost-fair`` (see
        :mod:`weatherpp.verify.kernels`) or ``gaussian``, the closed form for a normal
        distribution with the members' mean and unbiased standard deviation. ``fair`` if not
        given.
    alpha
        For ``almost-fair`` only: 0 is the plain, 1 the fair score.
    nan_policy
        ``propagate``: NaN where any input is NaN. ``omit``: each point is scored by the members
        that it has; NaN where these are too few, or where anything but a member is NaN.
        ``raise``: NaN is refused.

    Returns
    -------
    float64 in the units of the truth; attributes ``estimator`` (short), ``method`` (in words),
    ``members`` and ``nan_policy``.

    Raises
    ------
    InputError
        Not aligned, an estimator that does not fit the form or the number of members; NaN under
        ``raise``.
    """
    kernels.check_policy(nan_policy)
    form, obs = aligned(dist, truth)
    if form != "members" and estimator is not None:
        raise InputError(f"a {form} distribution has one CRPS; leave the estimator out")
    attrs: dict[str, Any] = {"units": truth.attrs.get("units", "1"), "nan_policy": nan_policy}
    if form == "normal":
        score = pointwise(kernels.crps_normal, dist["mean"], dist["spread"], obs)
        attrs |= {"estimator": "normal", "method": "closed form of the normal distribution"}
    elif form in FAMILIES:
        parameters = [dist[name].astype(np.float64) for name in distribution.FORMS[form]]
        score = pointwise(FAMILIES[form].crps, obs.astype(np.float64), *parameters)
        attrs |= {"estimator": form, "method": f"closed form of the {form} distribution"}
    elif form == "quantiles":
        levels = np.asarray(dist["quantile"].values, np.float64)
        score = pointwise(_pinball(levels), dist["value"], obs, over="quantile")
        attrs |= {"estimator": "pinball", "method": f"2 x mean pinball loss, {levels.size} levels"}
    else:
        choice: Choice = estimator or "fair"
        score, text = _crps_members(dist["value"], obs, choice, alpha, nan_policy)
        attrs |= {"estimator": choice, "method": text, "members": dist.sizes["number"]}
    return refuse_nan(score.rename("crps").assign_attrs(attrs), nan_policy)


def estimators_of(dist: xr.Dataset) -> tuple[Choice | None, ...]:
    """Every estimator of the CRPS that the distribution can be scored with."""
    if distribution.form_of(dist) != "members":
        return (None,)
    return ("plain",) if dist.sizes["number"] == 1 else ("plain", "fair", "gaussian")


def error(dist: xr.Dataset, truth: xr.DataArray) -> xr.DataArray:
    """Mean of the distribution minus truth, float64, units of the truth."""
    _, obs = aligned(dist, truth)
    out = mean(dist) - obs.astype(np.float64)
    attrs = {"units": truth.attrs.get("units", "1"), "estimator": "mean"}
    return out.rename("error").assign_attrs({**attrs, "nan_policy": "propagate"})


def squared_error(dist: xr.Dataset, truth: xr.DataArray) -> xr.DataArray:
    """Square of :func:`error`, units squared."""
    out = error(dist, truth) ** 2
    attrs = {"units": f"({truth.attrs.get('units', '1')})2", "estimator": "mean"}
    return out.rename("squared_error").assign_attrs({**attrs, "nan_policy": "propagate"})


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
    _, reference = aligned(dist, full_spread)
    out = (variance(dist) ** 0.5 - reference.astype(np.float64)) ** 2
    units = full_spread.attrs.get("units", "1")
    attrs = {"units": f"({units})2", "estimator": spread_estimator(dist)}
    return out.rename("spread_squared_error").assign_attrs({**attrs, "nan_policy": "propagate"})
