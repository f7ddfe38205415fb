r"""Decomposition of a mean CRPS into reliability, resolution and uncertainty.

References
----------
Hersbach, H. (2000), Wea. Forecasting 15, 559-570 (ensembles).
Dimitriadis, T., Gneiting, T. and Jordan, A. I. (2021), PNAS 118, e2016191118, and Arnold, S.,
Walz, E.-M., Ziegel, J. and Gneiting, T. (2024), Electron. J. Stat. 18, 4992-5044, sect. 3
(isotonic regression at each threshold).
"""

from __future__ import annotations

from typing import NamedTuple, get_args

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from weatherpp.errors import InputError
from weatherpp.verify.alignment import aligned, members_of
from weatherpp.verify.averages import joint_weights
from weatherpp.verify.events import CORP, Decomposition, Policy, calibrated
from weatherpp.verify.kernels import check_policy, crps_ensemble

Array = NDArray[np.float64]
MOST_STEPS = 20_000_000
"""Pairs times thresholds that the isotonic decomposition takes on: about a minute."""


class _Pairs(NamedTuple):
    members: Array  # (pair, m), ascending
    truth: Array
    weight: Array  # sum 1


def _pairs(
    dist: xr.Dataset, truth: xr.DataArray, weights: xr.DataArray | None, nan_policy: Policy
) -> _Pairs:
    check_policy(nan_policy, get_args(Policy))
    value = members_of(dist, "a decomposition of the CRPS")
    _, obs = aligned(dist, truth)
    joint = joint_weights(obs, weights, None)
    whole = joint.broadcast_like(obs.drop_vars(list(obs.coords))).transpose(*obs.dims)
    x = value.transpose(*obs.dims, "number").values.astype(np.float64)
    x, y, w = (
        x.reshape(-1, x.shape[-1]),
        obs.values.astype(np.float64).ravel(),
        whole.values.ravel(),
    )
    gone = (np.isnan(x).any(axis=1) | np.isnan(y)) & (w > 0)
    if nan_policy == "raise" and gone.any():
        raise InputError(
            f"{int(gone.sum())} of {y.size} pairs have NaN in a member or the truth; select valid "
            "points or ask for nan_policy 'omit'"
        )
    used = (w > 0) & ~gone
    if not used.any():
        raise InputError("decomposition of the CRPS: no pair is left")
    endless = int((np.isinf(x[used]).any(axis=1) | np.isinf(y[used])).sum())
    if endless:
        raise InputError(
            f"decomposition of the CRPS: {endless} of {int(used.sum())} pairs have an infinite "
            "value; leave them out first"
        )
    return _Pairs(np.sort(x[used], axis=1), y[used], w[used] / w[used].sum())


def _uncertainty(y: Array, w: Array) -> float:
    """Mean CRPS of the distribution of all observations: sum of w_i w_j |y_i - y_j| / 2."""
    order = np.argsort(y)
    y, w = y[order] - y.mean(), w[order]
    return float((w * y) @ (2 * np.cumsum(w) - w - 1))


def hersbach(
    dist: xr.Dataset,
    truth: xr.DataArray,
    weights: xr.DataArray | None = None,
    nan_policy: Policy = "raise",
) -> Decomposition:
    r"""Hersbach's (2000) decomposition of the mean plain CRPS of an ensemble.

    Between members i and i+1 the forecast's probability is :math:`p_i = i/m`; with the mean
    width :math:`\bar g_i` of that interval and the frequency :math:`\bar o_i` with which the
    observation was found below it

    .. math:: \mathrm{Reli} = \sum_i \bar g_i (\bar o_i - p_i)^2, \quad
       \mathrm{CRPS_{pot}} = \sum_i \bar g_i \bar o_i (1 - \bar o_i)

    and resolution is uncertainty, the score of the observations' own distribution, less
    CRPS_pot. The reliability of a perfectly calibrated ensemble is near zero; the plain score's
    penalty on few members is in the resolution.

    Parameters
    ----------
    dist, truth
        Members, and the truth on the same points; all dates and points are taken together.
    weights
        Of the pairs; equal if not given.
    nan_policy
        ``raise``, or ``omit`` for leaving out pairs with NaN in the truth or any member.

    Returns
    -------
    score = reliability - resolution + uncertainty, units of the field.

    Raises
    ------
    InputError
        No members, not aligned, NaN under ``raise``, infinite values, no pair left.
    """
    x, y, w = _pairs(dist, truth, weights, nan_policy)
    m = x.shape[1]
    at = y[:, None]
    # parts of the line below (alpha) and above (beta) the observation, in each interval
    alpha = np.zeros((y.size, m + 1))
    beta = np.zeros((y.size, m + 1))
    alpha[:, 1:m] = np.clip(at - x[:, :-1], 0, np.diff(x))
    beta[:, 1:m] = np.clip(x[:, 1:] - at, 0, np.diff(x))
    beta[:, 0] = np.maximum(x[:, 0] - y, 0)
    alpha[:, m] = np.maximum(y - x[:, -1], 0)
    a, b = w @ alpha, w @ beta
    width = a + b
    observed = np.divide(b, width, out=np.zeros(m + 1), where=width > 0)
    # outliers: their frequency, and a width that gives their share of the score
    below, above = float(w @ (y < x[:, 0])), float(w @ (y < x[:, -1]))
    observed[0], observed[m] = below, above
    width[0] = b[0] / below if below > 0 else 0.0
    width[m] = a[m] / (1 - above) if a[m] > 0 else 0.0
    p = np.arange(m + 1) / m
    reliability = float(width @ (observed - p) ** 2)
    potential = float(width @ (observed * (1 - observed)))
    uncertainty = _uncertainty(y, w)
    parts = (reliability + potential, reliability, uncertainty - potential, uncertainty)
    return Decomposition(*parts, "plain", "Hersbach 2000", nan_policy)


def isotonic(
    dist: xr.Dataset,
    truth: xr.DataArray,
    weights: xr.DataArray | None = None,
    nan_policy: Policy = "raise",
) -> Decomposition:
    r"""Decomposition of the mean plain CRPS by isotonic regression at each threshold.

    The CRPS is the integral of Brier scores over thresholds; each is decomposed as by
    :func:`weatherpp.verify.events.corp_decomposition`, and so exactly is their sum. No part is
    negative. Between two neighbouring values of all members and observations nothing changes, so
    the integral is a sum.

    Parameters
    ----------
    dist, truth, weights, nan_policy
        As in :func:`hersbach`.

    Raises
    ------
    InputError
        As :func:`hersbach`; more pairs than can be done, see :data:`MOST_STEPS`.
    """
    x, y, w = _pairs(dist, truth, weights, nan_policy)
    thresholds = np.unique(np.concatenate([x.ravel(), y]))
    if thresholds.size * y.size > MOST_STEPS:
        fewest = int(np.sqrt(MOST_STEPS / (x.shape[1] + 1)))
        raise InputError(
            f"isotonic decomposition: {y.size} pairs of {x.shape[1]} members are too many; take "
            f"about {fewest} of them, or the decomposition of Hersbach"
        )
    best = 0.0
    for threshold, step in zip(thresholds[:-1], np.diff(thresholds), strict=True):
        p, o = (x <= threshold).mean(axis=1), (y <= threshold).astype(np.float64)
        best += float(step * (w @ (calibrated(p, o, w) - o) ** 2))
    score = float(w @ crps_ensemble(x.T, y, "plain"))
    uncertainty = _uncertainty(y, w)
    parts = (score, score - best, uncertainty - best, uncertainty)
    return Decomposition(*parts, "plain", CORP, nan_policy)
