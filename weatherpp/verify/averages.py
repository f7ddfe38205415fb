r"""Weighted means of scores over any dimensions, and the scores that are made of means.

Weights and mask become one field of weights, and a value that is left out takes its weight with
it. Sums are in float64, lazy where the scores are. What was done about NaN stands in the
attribute ``nan_policy`` of every result. A mean over nothing is NaN, never zero.

Scores of one date at a time with intervals over dates are in :mod:`weatherpp.verify.aggregate`.

References
----------
Fortin, V. et al. (2014), J. Hydrometeor. 15, 1708-1713 (spread and error).
Wilks, D. S. (2019), Statistical Methods in the Atmospheric Sciences, 4th ed., ch. 9 (anomaly
correlation).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np
import xarray as xr

from weatherpp import distribution
from weatherpp.errors import InputError
from weatherpp.verify import scores
from weatherpp.verify.alignment import aligned, check_units
from weatherpp.verify.kernels import NanPolicy, check_policy
from weatherpp.verify.weights import check_part, check_weights

Dims = Hashable | Iterable[Hashable] | None


def joint_weights(
    score: xr.DataArray, weights: xr.DataArray | None, mask: xr.DataArray | None
) -> xr.DataArray:
    """Weights times mask, (some of the score's dimensions), float64.

    Raises
    ------
    InputError
        Not on the score's points; negative, NaN or all zero; a mask that is not of booleans.
    """
    joint = xr.DataArray(1.0)
    for name, part in (("weights", weights), ("the points of the mask", mask)):
        if part is not None:
            check_part(part, score, (name, "scores"))
            # labels were compared; without them nothing is joined by label
            joint = joint * part.drop_vars(list(part.coords)).astype(np.float64)
    if mask is not None and mask.dtype != bool:
        raise InputError(
            f"a mask must be of booleans, not {mask.dtype}; compare it with a threshold"
        )
    check_weights(joint)
    return joint


def average(
    score: xr.DataArray,
    over: Dims = None,
    weights: xr.DataArray | None = None,
    mask: xr.DataArray | None = None,
    nan_policy: NanPolicy = "raise",
) -> xr.DataArray:
    """Weighted mean of a score.

    Parameters
    ----------
    score
        Any dimensions.
    over
        Dimensions to average over; all if not given.
    weights
        Some of the score's dimensions, not negative, as from
        :func:`weatherpp.verify.weights.grid_weights`; equal if not given. A point of weight zero
        takes no part, and may be NaN.
    mask
        Booleans, some of the score's dimensions; true takes part.
    nan_policy
        For values that take part: ``raise`` refuses NaN, ``omit`` leaves value and weight out,
        ``propagate`` makes the mean NaN.

    Returns
    -------
    float64 with the score's attributes and ``nan_policy``; NaN where nothing took part.

    Raises
    ------
    InputError
        NaN under ``raise`` (when computed, if lazy); an unknown dimension; weights or a mask that
        do not fit.
    """
    check_policy(nan_policy)
    dims = _dims(score, over)
    w = joint_weights(score, weights, mask)
    values = score.astype(np.float64).where(w > 0, 0.0).rename(score.name)
    values = scores.refuse_nan(values, nan_policy)
    out = values.weighted(w).mean(dims, skipna=nan_policy == "omit")
    return out.rename(score.name).assign_attrs({**score.attrs, "nan_policy": nan_policy})


def _dims(field: xr.DataArray, over: Dims) -> list[Hashable]:
    if over is None:
        return list(field.dims)
    dims = [over] if isinstance(over, str) or not isinstance(over, Iterable) else list(over)
    unknown = [str(dim) for dim in dims if dim not in field.dims]
    if unknown:
        raise InputError(
            f"no dimension {', '.join(unknown)} to average over; there are "
            f"{', '.join(map(str, field.dims))}"
        )
    return dims


def _finish(
    out: xr.DataArray, name: str, units: str, nan_policy: NanPolicy, estimator: str
) -> xr.DataArray:
    attrs = {"units": units, "nan_policy": nan_policy, "estimator": estimator}
    return out.rename(name).assign_attrs(attrs)


def bias(
    dist: xr.Dataset,
    truth: xr.DataArray,
    over: Dims = None,
    weights: xr.DataArray | None = None,
    mask: xr.DataArray | None = None,
    nan_policy: NanPolicy = "raise",
) -> xr.DataArray:
    """Mean of (mean of the distribution minus truth); arguments as in :func:`average`."""
    out = average(scores.error(dist, truth), over, weights, mask, nan_policy)
    return _finish(out, "bias", _units(truth), nan_policy, "mean")


def mae(
    dist: xr.Dataset,
    truth: xr.DataArray,
    over: Dims = None,
    weights: xr.DataArray | None = None,
    mask: xr.DataArray | None = None,
    nan_policy: NanPolicy = "raise",
) -> xr.DataArray:
    """Mean absolute error of the *median*, the forecast that this score asks for.

    The median, not the mean, minimises the absolute error (Gneiting 2011,
    doi:10.1198/jasa.2011.r10138). Arguments as in :func:`average`.
    """
    _, obs = aligned(dist, truth)
    if distribution.form_of(dist) == "members" and dist["value"].chunks is not None:
        dist = dist.chunk({"number": -1})
    median = distribution.quantile(dist, [0.5]).isel(quantile=0, drop=True)
    error = abs(median.astype(np.float64) - obs.astype(np.float64))
    out = average(error, over, weights, mask, nan_policy)
    return _finish(out, "mae", _units(truth), nan_policy, "median")


def rmse(
    dist: xr.Dataset,
    truth: xr.DataArray,
    over: Dims = None,
    weights: xr.DataArray | None = None,
    mask: xr.DataArray | None = None,
    nan_policy: NanPolicy = "raise",
) -> xr.DataArray:
    """Root of the mean squared error of the mean; arguments as in :func:`average`."""
    mean = average(scores.squared_error(dist, truth), over, weights, mask, nan_policy)
    return _finish(mean**0.5, "rmse", _units(truth), nan_policy, "mean")


def mean_spread(
    dist: xr.Dataset,
    over: Dims = None,
    weights: xr.DataArray | None = None,
    mask: xr.DataArray | None = None,
    nan_policy: NanPolicy = "raise",
) -> xr.DataArray:
    """Root of the mean variance (not the mean of the standard deviations, which is less).

    That is what the RMSE is to be compared with (Fortin et al. 2014). Arguments as in
    :func:`average`.
    """
    out = average(scores.variance(dist), over, weights, mask, nan_policy) ** 0.5
    units = distribution.pattern(dist).attrs.get("units", "1")
    return _finish(out, "spread", units, nan_policy, scores.spread_estimator(dist))


def _units(field: xr.DataArray) -> str:
    return str(field.attrs.get("units", "1"))


def anomaly_correlation(
    dist: xr.Dataset,
    truth: xr.DataArray,
    climate: xr.DataArray,
    over: Dims = None,
    weights: xr.DataArray | None = None,
    mask: xr.DataArray | None = None,
    nan_policy: NanPolicy = "raise",
    *,
    centred: bool = False,
) -> xr.DataArray:
    """Correlation of the anomalies of the mean and of the truth (Wilks 2019, ch. 9).

    Parameters
    ----------
    dist, truth
        As in :func:`weatherpp.verify.scores.crps`.
    climate
        Mean climate, with some of the truth's dimensions.
    over, weights, mask, nan_policy
        As in :func:`average`.
    centred
        Whether the mean anomaly over ``over`` is taken off first.

    Returns
    -------
    float64, -1 to 1; NaN where one of the anomalies is the same (or zero) everywhere.

    Raises
    ------
    InputError
        As :func:`average`; a climate that is not on the truth's points.
    """
    _, obs = aligned(dist, truth)
    check_part(climate, obs, ("climate values", "the truth"))
    units = [field.attrs.get("units") for field in (climate, obs)]
    check_units(units[0], units[1], ("the climate", "the truth"))
    base = climate.drop_vars(list(climate.coords)).astype(np.float64)
    ahead, seen = scores.mean(dist) - base, obs.astype(np.float64) - base
    there = (ahead + seen).notnull()

    def mean(field: xr.DataArray) -> xr.DataArray:
        return average(field, over, weights, mask, nan_policy)

    ahead, seen = ahead.where(there), seen.where(there)
    if centred:
        ahead, seen = ahead - mean(ahead), seen - mean(seen)
    square = mean(ahead**2) * mean(seen**2)
    out = mean(ahead * seen) / (square.where(square > 0)) ** 0.5
    name = "anomaly_correlation"
    return _finish(out, name, "1", nan_policy, "mean").assign_attrs(centred=int(centred))


def spread_skill(
    dist: xr.Dataset,
    truth: xr.DataArray,
    over: Dims = None,
    weights: xr.DataArray | None = None,
    mask: xr.DataArray | None = None,
    nan_policy: NanPolicy = "raise",
) -> xr.DataArray:
    r"""Ratio of spread to error of the mean; one if calibrated (Fortin et al. 2014).

    .. math:: \sqrt{\overline{\tfrac{m+1}{m} s^2}} \Big/ \sqrt{\overline{e^2}}

    The factor is for members alone. Under ``omit`` m is the number of members that a point has,
    and points with fewer than two take no part, neither in the spread nor in the error.

    Parameters
    ----------
    dist, truth
        As in :func:`weatherpp.verify.scores.crps`.
    over, weights, mask, nan_policy
        As in :func:`average`.

    Returns
    -------
    float64; NaN where there is no error at all.

    Raises
    ------
    InputError
        As :func:`average`; one member.
    """
    _, obs = aligned(dist, truth)
    variance = scores.variance(dist)
    centre = scores.mean(dist)
    if distribution.form_of(dist) == "members":
        value = dist["value"]
        if nan_policy == "omit":
            count = value.notnull().sum("number")
            centre = value.mean("number", dtype=np.float64, skipna=True)
            squares = ((value.astype(np.float64) - centre) ** 2).sum("number", skipna=True)
            variance = squares.where(count > 1) / (count.where(count > 1) - 1)
        else:
            count = xr.DataArray(value.sizes["number"])
        variance = variance * (count + 1) / count
    squared = (centre - obs.astype(np.float64)) ** 2
    there = (variance + squared).notnull()

    def mean(field: xr.DataArray) -> xr.DataArray:
        return average(field.where(there), over, weights, mask, nan_policy)

    error = mean(squared)
    out = (mean(variance) / error.where(error > 0)) ** 0.5
    return _finish(out, "spread_skill", "1", nan_policy, scores.spread_estimator(dist))
