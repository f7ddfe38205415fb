r"""Forecasts of a yes or no by a probability: decomposition, ROC, value, reliability.

All functions take probabilities and events of the same shape, plain arrays or labelled fields,
whose pairs are taken together, and weights for them. Pairs with NaN are refused, or left out
together with their weight under ``omit``.

References
----------
Murphy, A. H. (1973), J. Appl. Meteor. 12, 595-600 (decomposition).
Stephenson, D. B., Coelho, C. A. S. and Jolliffe, I. T. (2008), Wea. Forecasting 23, 752-757
(what bins leave over).
Mason, I. (1982), Aust. Met. Mag. 30, 291-303 (relative operating characteristic).
Richardson, D. S. (2000), Q. J. R. Meteorol. Soc. 126, 649-667 (economic value).
Bröcker, J. and Smith, L. A. (2007), Wea. Forecasting 22, 651-661 (consistency bars).
Dimitriadis, T., Gneiting, T. and Jordan, A. I. (2021), PNAS 118, e2016191118 (CORP).
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy import optimize

from weatherpp.errors import InputError
from weatherpp.verify.alignment import check_aligned
from weatherpp.verify.averages import joint_weights
from weatherpp.verify.kernels import check_policy

Array = NDArray[np.float64]
Field = Array | xr.DataArray
Policy = Literal["raise", "omit"]
CORP = "isotonic regression (Dimitriadis et al. 2021)"
_TOLERANCE = 1e-9  # of a probability that a sum of float numbers put beyond 0 or 1


class Pairs(NamedTuple):
    """Probabilities, events (0 or 1) and weights (sum 1) of all pairs that take part."""

    probability: Array
    event: Array
    weight: Array


def pairs(
    probability: Field,
    event: Field,
    weights: xr.DataArray | None = None,
    nan_policy: Policy = "raise",
) -> Pairs:
    """Pairs as flat arrays.

    Parameters
    ----------
    probability
        0 to 1, as from :func:`weatherpp.distribution.exceedance`.
    event
        Booleans, or 0 and 1 where NaN is to be told; same shape, dimensions and points.
    weights
        Labelled, for labelled fields; equal if not given.
    nan_policy
        ``raise`` or ``omit``.

    Raises
    ------
    InputError
        Not aligned; beyond 0 and 1; events of other values; NaN under ``raise``; nothing left.
    """
    check_policy(nan_policy, get_args(Policy))
    if isinstance(probability, xr.DataArray) and isinstance(event, xr.DataArray):
        check_aligned(probability, event, ("the probability", "the event"))
        joint = joint_weights(probability, weights, None)
        event = event.transpose(*probability.dims)
        whole = joint.broadcast_like(probability.drop_vars(list(probability.coords)))
        w = whole.transpose(*probability.dims).values.ravel()
    elif weights is None and np.shape(probability) == np.shape(event):
        w = np.ones(np.size(probability))
    else:
        raise InputError("probabilities and events must both be labelled, or of one shape")
    p, o = (np.asarray(each, np.float64).ravel() for each in (probability, event))
    gone = (np.isnan(p) | np.isnan(o)) & (w > 0)
    if nan_policy == "raise" and gone.any():
        raise InputError(
            f"{int(gone.sum())} of {p.size} pairs of probability and event are NaN; select valid "
            "points or ask for nan_policy 'omit'"
        )
    used = (w > 0) & ~gone
    p, o, w = p[used], o[used], w[used]
    if not p.size:
        raise InputError("no pair of a probability and an event is left")
    if p.min() < -_TOLERANCE or p.max() > 1 + _TOLERANCE or not np.isin(o, (0, 1)).all():
        raise InputError("probabilities lie between 0 and 1, events are 0 or 1")
    return Pairs(np.clip(p, 0, 1), o, w / w.sum())


class Decomposition(NamedTuple):
    """Parts of a mean score; score = reliability - resolution + uncertainty.

    Attributes
    ----------
    score
        The mean score.
    reliability, resolution, uncertainty
        Miscalibration (less is better), discrimination, and the score of the climate.
    estimator
        Of the score: ``plain``.
    method
        How it was taken apart.
    nan_policy
        What was done with NaN.
    """

    score: float
    reliability: float
    resolution: float
    uncertainty: float
    estimator: str
    method: str
    nan_policy: str


def _groups(p: Array, bins: int | None) -> tuple[NDArray[np.intp], int]:
    """Group of each probability: one for each value, or equally wide bins."""
    if bins is None:
        values, group = np.unique(p, return_inverse=True)
        return group, values.size
    if bins < 1:
        raise InputError("at least one bin of probabilities is needed")
    return np.minimum((p * bins).astype(np.intp), bins - 1), bins


def _grouping(bins: int | None) -> str:
    return "a group for each probability" if bins is None else f"{bins} bins"


def brier_decomposition(
    probability: Field,
    event: Field,
    bins: int | None = None,
    weights: xr.DataArray | None = None,
    nan_policy: Policy = "raise",
) -> Decomposition:
    r"""Murphy's (1973) decomposition of the Brier score.

    .. math:: \sum_k n_k (p_k - \bar o_k)^2 - \sum_k n_k (\bar o_k - \bar o)^2
       + \bar o (1 - \bar o)

    Parameters
    ----------
    probability, event, weights, nan_policy
        As in :func:`pairs`.
    bins
        Number of equally wide bins; None for a group for each value, as members give few. With
        bins what varies inside them is reckoned to the resolution (Stephenson et al. 2008), so
        that the parts add up exactly. Many groups of few pairs each make reliability and resolution
        too large by the same amount; :func:`corp_decomposition` does not need groups.

    Raises
    ------
    InputError
        As :func:`pairs`.
    """
    p, o, w = pairs(probability, event, weights, nan_policy)
    group, number = _groups(p, bins)
    share = np.bincount(group, w, number)
    there = share > 0
    p_mean, o_mean = (np.bincount(group, w * each, number)[there] / share[there] for each in (p, o))
    base = float(w @ o)
    reliability = float(share[there] @ (p_mean - o_mean) ** 2)
    score = float(w @ (p - o) ** 2)
    uncertainty = base * (1 - base)
    between = float(share[there] @ (o_mean - base) ** 2)
    # what bins leave over: variance of p inside them less twice its covariance with o
    inside = score - (reliability - between + uncertainty)
    method = f"Murphy 1973, {_grouping(bins)}"
    return Decomposition(
        score, reliability, between - inside, uncertainty, "plain", method, nan_policy
    )


def calibrated(p: Array, o: Array, w: Array) -> Array:
    """Isotonic regression of events on probabilities (pool adjacent violators); ties pooled."""
    values, group = np.unique(p, return_inverse=True)
    share = np.bincount(group, w, values.size)
    rate = np.bincount(group, w * o, values.size) / share
    fitted: Array = optimize.isotonic_regression(rate, weights=share).x
    return fitted[group]


def corp_decomposition(
    probability: Field,
    event: Field,
    weights: xr.DataArray | None = None,
    nan_policy: Policy = "raise",
) -> Decomposition:
    """Decomposition of the Brier score by isotonic regression (CORP, Dimitriadis et al. 2021).

    Miscalibration is what recalibrating the probabilities by isotonic regression would gain,
    discrimination what the recalibrated ones gain over the event's mean frequency. Neither is
    negative, and no bins are chosen. Arguments as in :func:`pairs`.
    """
    p, o, w = pairs(probability, event, weights, nan_policy)
    base = float(w @ o)
    score, best = float(w @ (p - o) ** 2), float(w @ (calibrated(p, o, w) - o) ** 2)
    uncertainty = base * (1 - base)
    return Decomposition(
        score, score - best, uncertainty - best, uncertainty, "plain", CORP, nan_policy
    )


class Roc(NamedTuple):
    """Relative operating characteristic.

    Attributes
    ----------
    threshold
        A yes is forecast where the probability is at least this; falling, from infinity.
    false_alarm, hit
        Rates, rising from 0 to 1.
    area
        Under the curve by trapezoids; 0.5 without skill. It equals the probability that an event
        had a higher probability than a non-event, ties counted half.
    estimator, nan_policy
        How the area was taken, and what was done with NaN.
    """

    threshold: Array
    false_alarm: Array
    hit: Array
    area: float
    estimator: str
    nan_policy: str


def roc(
    probability: Field,
    event: Field,
    weights: xr.DataArray | None = None,
    nan_policy: Policy = "raise",
) -> Roc:
    """Relative operating characteristic at every probability that was forecast.

    Raises
    ------
    InputError
        As :func:`pairs`; the event always or never happened.
    """
    p, o, w = pairs(probability, event, weights, nan_policy)
    if not 0 < o.mean() < 1:
        raise InputError("a ROC needs cases with and without the event; there is one kind alone")
    values, group = np.unique(-p, return_inverse=True)
    hits, alarms = (np.bincount(group, w * each, values.size) for each in (o, 1 - o))
    hit, alarm = (np.concatenate([[0.0], np.cumsum(each)]) for each in (hits, alarms))
    hit, alarm = hit / hit[-1], alarm / alarm[-1]
    area = float(np.trapezoid(hit, alarm))
    falling = np.concatenate([[np.inf], -values])
    return Roc(falling, alarm, hit, area, "trapezoids", nan_policy)


def economic_value(
    probability: Field,
    event: Field,
    cost_loss: Array,
    weights: xr.DataArray | None = None,
    nan_policy: Policy = "raise",
    *,
    threshold: float | Literal["own", "best"] = "own",
) -> xr.DataArray:
    r"""Relative economic value for users of given ratios of cost and loss (Richardson 2000).

    .. math:: V = \frac{\min(\alpha, s) - F \alpha (1 - s) + H s (1 - \alpha) - s}
       {\min(\alpha, s) - s \alpha}

    with ratio :math:`\alpha`, base rate s, hit rate H and false alarm rate F. One is a perfect
    forecast, zero the better of always and never protecting.

    Parameters
    ----------
    probability, event, weights, nan_policy
        As in :func:`pairs`.
    cost_loss
        Ratios in (0, 1).
    threshold
        At which probability a user protects: ``own``, the ratio itself, best if the forecast is
        calibrated; ``best``, the threshold that was best on these very pairs (potential value, an
        upper bound, never below zero); a number, the same for all.

    Returns
    -------
    (cost_loss,) float64, value for each ratio; the attribute ``estimator`` tells the threshold.

    Raises
    ------
    InputError
        As :func:`roc`; ratios beyond (0, 1); a threshold that is none.
    """
    if not (
        threshold in ("own", "best")
        or (isinstance(threshold, (int, float)) and 0 <= threshold <= 1)
    ):
        raise InputError(f"the threshold is own, best or between 0 and 1, not {threshold}")
    alpha = np.asarray(cost_loss, np.float64)
    if alpha.ndim != 1 or not np.all((alpha > 0) & (alpha < 1)):
        raise InputError("ratios of cost and loss are a list of numbers between 0 and 1")
    curve = roc(probability, event, weights, nan_policy)
    flat = pairs(probability, event, weights, nan_policy)
    base = float(flat.weight @ flat.event)
    gain = curve.hit * base * (1 - alpha[:, None]) - curve.false_alarm * alpha[:, None] * (1 - base)
    climate = np.minimum(alpha, base)
    value: Array = (climate[:, None] + gain - base) / (climate - base * alpha)[:, None]
    if threshold == "best":
        return _value(value.max(axis=1), alpha, threshold, nan_policy)
    limits = alpha if threshold == "own" else np.full(alpha.size, float(threshold))
    # how many points of the falling thresholds are at least the user's
    at = np.searchsorted(-curve.threshold, -limits + 1e-12, side="right") - 1
    return _value(value[np.arange(alpha.size), at], alpha, threshold, nan_policy)


def _value(value: Array, alpha: Array, threshold: float | str, nan_policy: Policy) -> xr.DataArray:
    attrs = {"units": "1", "estimator": f"threshold {threshold}", "nan_policy": nan_policy}
    coords = {"cost_loss": alpha}
    return xr.DataArray(value, coords, ["cost_loss"], "economic_value", attrs)


class Reliability(NamedTuple):
    """Reliability diagram.

    Attributes
    ----------
    probability, frequency, share
        Of each bin with pairs: mean probability, observed frequency, share of the weights.
    low, high
        Consistency band: where the frequency would lie if the forecast were calibrated.
    estimator, nan_policy
        How pairs were grouped, and what was done with NaN.
    """

    probability: Array
    frequency: Array
    share: Array
    low: Array
    high: Array
    estimator: str
    nan_policy: str


def reliability(
    probability: Field,
    event: Field,
    bins: int | None = 10,
    weights: xr.DataArray | None = None,
    nan_policy: Policy = "raise",
    *,
    samples: int = 500,
    level: float = 0.9,
    seed: int = 1,
) -> Reliability:
    """Reliability diagram with consistency bands (Bröcker and Smith 2007).

    For the band, pairs are drawn anew with replacement, their events from their probabilities,
    and binned again. Pairs are taken as independent; neighbouring points are not, and the true
    band is then wider.

    Parameters
    ----------
    probability, event, weights, nan_policy
        As in :func:`pairs`.
    bins
        Number of equally wide bins; None for one for each value.
    samples, level, seed
        Number of draws, probability of the band, what decides the draws.

    Raises
    ------
    InputError
        As :func:`pairs`; a level beyond (0, 1).
    """
    if not 0 < level < 1 or samples < 1:
        raise InputError("a consistency band needs a level between 0 and 1, and samples")
    p, o, w = pairs(probability, event, weights, nan_policy)
    group, number = _groups(p, bins)
    share = np.bincount(group, w, number)
    there = share > 0
    rng = np.random.default_rng(seed)
    drawn = np.full((samples, number), np.nan)
    for sample in drawn:
        at = rng.integers(p.size, size=p.size)
        happened = rng.random(p.size) < p[at]
        total = np.bincount(group[at], w[at], number)
        hits = np.bincount(group[at], w[at] * happened, number)
        np.divide(hits, total, out=sample, where=total > 0)
    low, high = np.nanquantile(drawn[:, there], [(1 - level) / 2, (1 + level) / 2], axis=0)
    means = [np.bincount(group, w * each, number)[there] / share[there] for each in (p, o)]
    shares = share[there].astype(np.float64)
    return Reliability(means[0], means[1], shares, low, high, _grouping(bins), nan_policy)
