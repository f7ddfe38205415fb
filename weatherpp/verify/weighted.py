r"""CRPS with weight on what matters: above or below a threshold, where events are extreme.

References
----------
Gneiting, T. and Ranjan, R. (2011), J. Bus. Econ. Stat. 29, 411-422 (threshold-weighted CRPS).
Holzmann, H. and Klar, B. (2017), Ann. Appl. Stat. 11, 2404-2431 (outcome-weighted scores).
Allen, S., Ginsbourger, D. and Ziegel, J. (2023), SIAM/ASA J. Uncertain. Quantif. 11, 906-940
(both as kernel scores).
Ashkboos, S. et al. (2022), ENS-10, NeurIPS datasets track, arXiv:2206.14786 (EECRPS).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from weatherpp import distribution
from weatherpp.errors import InputError
from weatherpp.verify.alignment import aligned, members_of
from weatherpp.verify.kernels import ALPHA, NanPolicy, check_policy
from weatherpp.verify.scores import Choice, crps, pointwise, refuse_nan
from weatherpp.verify.weights import check_part

Array = NDArray[np.float64]


def _check_limits(low: float, high: float) -> None:
    if not low < high:
        raise InputError(f"the weighted part has the limits {low:g} and {high:g}; low < high")


def threshold_weighted_crps(
    dist: xr.Dataset,
    truth: xr.DataArray,
    low: float = -np.inf,
    high: float = np.inf,
    estimator: Choice | None = None,
    *,
    alpha: float = ALPHA,
    nan_policy: NanPolicy = "propagate",
) -> xr.DataArray:
    r"""CRPS of which only thresholds between ``low`` and ``high`` count.

    .. math:: \int_a^b (F(z) - 1\{y \le z\})^2 dz

    It equals the CRPS after all values are put inside the limits (Allen et al. 2023), so members
    have all estimators of it, and quantiles theirs.

    Parameters
    ----------
    dist, truth
        Members or quantiles, and the truth on the same points.
    low, high
        Limits in the units of the field.
    estimator, alpha, nan_policy
        As in :func:`weatherpp.verify.scores.crps`; ``gaussian`` has no such form.

    Returns
    -------
    float64, units of the truth; attributes of the CRPS, and ``low`` and ``high``.

    Raises
    ------
    InputError
        As the CRPS; a named family; ``gaussian``; limits in the wrong order.
    """
    _check_limits(low, high)
    form = distribution.form_of(dist)
    if form not in distribution.ENSEMBLE_DIM or estimator == "gaussian":
        raise InputError(
            f"the threshold-weighted CRPS is not there for the form '{estimator or form}'; take "
            "quantiles or members from the distribution first"
        )
    aligned(dist, truth)
    inside = dist.assign(value=dist["value"].clip(low, high, keep_attrs=True))
    score = crps(
        inside,
        truth.clip(low, high, keep_attrs=True),
        estimator,
        alpha=alpha,
        nan_policy=nan_policy,
    )
    method = f"{score.attrs['method']} of values clipped to the limits"
    return score.rename("threshold_weighted_crps").assign_attrs(low=low, high=high, method=method)


def outcome_weighted_crps(
    dist: xr.Dataset,
    truth: xr.DataArray,
    low: float = -np.inf,
    high: float = np.inf,
    *,
    nan_policy: NanPolicy = "propagate",
) -> xr.DataArray:
    r"""CRPS of the forecast under the condition that the outcome is between the limits.

    With :math:`w(z) = 1\{a < z < b\}` and :math:`\bar w = \frac1m \sum_i w(x_i)`

    .. math:: w(y)\Big(\frac{1}{m \bar w} \sum_i w(x_i) |x_i - y|
       - \frac{1}{2 m^2 \bar w^2} \sum_{i,j} w(x_i) w(x_j) |x_i - x_j|\Big)

    (Holzmann and Klar 2017, plain estimator). It says nothing on whether the outcome comes to lie
    there: add a Brier score of that event. An outcome outside scores zero. For an outcome inside
    with no member inside the score does not exist; it is NaN, so a mean with ``omit`` favours
    forecasts that miss such outcomes: compare methods on the same pairs.

    Parameters
    ----------
    dist, truth
        Members, and the truth on the same points.
    low, high
        Limits in the units of the field, themselves outside.
    nan_policy
        As in :func:`weatherpp.verify.scores.crps`; ``raise`` refuses NaN of either kind.

    Returns
    -------
    float64, units of the truth.

    Raises
    ------
    InputError
        No members, not aligned, limits in the wrong order; NaN under ``raise``.
    """
    _check_limits(low, high)
    check_policy(nan_policy)
    value = members_of(dist, "the outcome-weighted CRPS")
    _, obs = aligned(dist, truth)

    def score(members: NDArray[Any], observed: NDArray[Any]) -> Array:
        # compiled, no array of all pairs; a member of weight zero is as good as not there
        from scoringrules.core.crps import estimator_gufuncs

        x, y = members.astype(np.float64), observed.astype(np.float64)
        gone = np.isnan(x)
        weight = ((x > low) & (x < high)).astype(np.float64)
        of_truth = ((y > low) & (y < high)).astype(np.float64)
        filled = np.where(gone, 0.0, x)
        with np.errstate(divide="ignore", invalid="ignore"):
            out = np.asarray(estimator_gufuncs["ownrg"](y, filled, of_truth, weight))
        out = np.where((of_truth > 0) & (weight.sum(axis=-1) == 0), np.nan, out)
        out = np.where(of_truth > 0, out, 0.0)
        lost = gone.all(axis=-1) if nan_policy == "omit" else gone.any(axis=-1)
        result: Array = np.where(lost | np.isnan(y), np.nan, out)
        return result

    found = pointwise(score, value, obs, over="number").rename("outcome_weighted_crps")
    attrs = {"units": truth.attrs.get("units", "1"), "low": low, "high": high}
    more = {"estimator": "plain", "members": value.sizes["number"], "nan_policy": nan_policy}
    return refuse_nan(found.assign_attrs({**attrs, **more}), nan_policy)


def extreme_event_crps(
    dist: xr.Dataset,
    truth: xr.DataArray,
    efi: xr.DataArray,
    estimator: Choice | None = None,
    *,
    alpha: float = ALPHA,
    nan_policy: NanPolicy = "propagate",
) -> xr.DataArray:
    """CRPS times the absolute extreme forecast index: the EECRPS of ENS-10.

    Parameters
    ----------
    dist, truth, estimator, alpha, nan_policy
        As in :func:`weatherpp.verify.scores.crps`.
    efi
        Extreme forecast index (-1 to 1) on the truth's points, see
        :func:`weatherpp.verify.efi.extreme_forecast_index`. Take that of the *raw* ensemble for
        all methods that are compared: a method that is weighted by an index of its own can lower
        its score by forecasting nothing extreme.

    Returns
    -------
    float64, units of the truth.

    Raises
    ------
    InputError
        As the CRPS; an index that is not aligned, or beyond -1 and 1.
    """
    score = crps(dist, truth, estimator, alpha=alpha, nan_policy=nan_policy)
    check_part(efi, score, ("values of the EFI", "scores"))
    bound = abs(efi.drop_vars(list(efi.coords)).astype(np.float64))
    if bound.chunks is None and bool((bound > 1 + 1e-6).any()):
        raise InputError("the extreme forecast index lies between -1 and 1; is this another field?")
    out = (score * bound).transpose(*score.dims).rename("extreme_event_crps")
    return refuse_nan(out.assign_attrs(score.attrs), nan_policy)
