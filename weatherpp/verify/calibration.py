"""Whether the probabilities of a distribution are borne out: ranks, flatness, intervals.

References
----------
Czado, C., Gneiting, T. and Held, L. (2009), Biometrics 65, 1254-1261 (PIT with masses).
Hamill, T. M. (2001), Mon. Wea. Rev. 129, 550-560 (rank histograms, ties at random).
Jolliffe, I. T. and Primo, C. (2008), Mon. Wea. Rev. 136, 2133-2139 (tests of flatness).
Gneiting, T. and Raftery, A. E. (2007), J. Amer. Statist. Assoc. 102, 359-378 (interval score).
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy import stats

from weatherpp import distribution
from weatherpp.errors import InputError
from weatherpp.families import FAMILIES
from weatherpp.verify.accumulate import date_blocks
from weatherpp.verify.alignment import aligned, members_of
from weatherpp.verify.averages import joint_weights
from weatherpp.verify.kernels import NanPolicy, check_policy
from weatherpp.verify.scores import (
    pointwise,
    quantile_estimator,
    refuse_nan,
)

Array = NDArray[np.float64]


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
        Not aligned, NaN in the forecast or the truth under ``raise``, or no pair is left; weights
        that do not fit or are NaN, negative or all zero.
    """
    check_policy(nan_policy, ("raise", "omit"))
    form, obs = aligned(dist, truth)
    dist = dist[list(distribution.FORMS[form])]
    if bins < 1:
        raise InputError("rank histogram: at least one bin is needed")
    w = joint_weights(obs, weights, None)
    if "time" in obs.dims and "time" not in w.dims:
        parts = [
            _counts(dist.isel(time=dates).load(), obs.isel(time=dates).load(), w, bins, nan_policy)
            for dates in date_blocks(dist, obs)
        ]
        counts: Array = np.sum(parts, axis=0)
    else:
        counts = _counts(dist.load(), obs.load(), w, bins, nan_policy)
    if not counts.any():
        raise InputError("rank histogram: no point has both a forecast and a truth")
    if form == "quantiles":
        expected = np.diff(np.concatenate([[0.0], dist["quantile"].values, [1.0]]))
    else:
        expected = np.full(counts.size, 1 / counts.size)
    return xr.DataArray(
        counts / counts.sum(),
        dims="rank",
        coords={"rank": np.arange(counts.size), "expected": ("rank", expected)},
        name="frequency",
        attrs={
            "histogram": "PIT" if form in FAMILIES else "rank",
            "estimator": form if form in FAMILIES else "rank",
            "ties": "spread evenly",
            "nan_policy": nan_policy,
        },
    )


def _counts(
    dist: xr.Dataset, obs: xr.DataArray, weights: xr.DataArray, bins: int, nan_policy: NanPolicy
) -> Array:
    """Weight that falls in each rank, or bin of the PIT."""
    form = distribution.form_of(dist)
    flat = weights.broadcast_like(obs).transpose(*obs.dims).values.astype(np.float64)
    there = obs.notnull()
    for name in distribution.FORMS[form]:
        there &= dist[name].notnull().all([d for d in dist[name].dims if d not in obs.dims])
    if nan_policy == "raise" and not bool(there.all()):
        raise InputError(
            "rank histogram: NaN in the forecast or the truth; select valid points or ask for "
            "nan_policy 'omit'"
        )
    flat = np.where(there.transpose(*obs.dims).values, flat, 0.0)
    if form in FAMILIES:
        return _pit_counts(dist, obs, flat, bins)
    value = dist["value"].transpose(*obs.dims, distribution.ENSEMBLE_DIM[form]).values
    return _rank_counts(value, obs.values, flat)


def random_ranks(
    dist: xr.Dataset,
    truth: xr.DataArray,
    seed: int = 1,
    nan_policy: Literal["raise", "propagate"] = "raise",
) -> xr.DataArray:
    """Rank of the truth among the members at each point, ties broken at random.

    The number of members below the truth and, of those equal to it, an evenly drawn number
    (Hamill 2001). The draw of a point depends on its place in the field and the seed alone, not
    on how the field is chunked.

    Parameters
    ----------
    dist, truth
        Members, and the truth on the same points.
    seed
        Decides the draw.
    nan_policy
        ``raise``, or ``propagate`` for NaN where the truth or any member is NaN: a rank among
        fewer members means something else.

    Returns
    -------
    float64, 0 to m.

    Raises
    ------
    InputError
        No members, not aligned, NaN under ``raise``.
    """
    value = members_of(dist, "a rank")
    _, obs = aligned(dist, truth)
    place = xr.zeros_like(obs, dtype=np.uint64)
    for dim in obs.dims:  # as labelled arithmetic, so that it is chunked like the field
        along = xr.DataArray(np.arange(obs.sizes[dim], dtype=np.uint64), dims=[dim])
        place = place * np.uint64(obs.sizes[dim]) + along
    place = place.transpose(*obs.dims)

    def rank(members: NDArray[Any], observed: NDArray[Any], at: NDArray[np.uint64]) -> Array:
        below = (members < observed[..., None]).sum(axis=-1)
        ties = (members == observed[..., None]).sum(axis=-1)
        found: Array = below + np.floor(_uniform(at, seed) * (ties + 1))
        missing = np.isnan(members).any(axis=-1) | np.isnan(observed)
        return np.where(missing, np.nan, found)

    found = pointwise(rank, value, obs, place, over="number").rename("rank")
    attrs = {"units": "1", "ties": "random", "seed": seed, "members": value.sizes["number"]}
    found = found.assign_attrs({**attrs, "estimator": "rank", "nan_policy": nan_policy})
    return refuse_nan(found, nan_policy, ("raise", "propagate"))


def _uniform(place: NDArray[np.uint64], seed: int) -> Array:
    """Numbers in [0, 1) that depend on place and seed alone.

    The generator splitmix64 (Steele, G. L., Lea, D. and Flood, C. H. (2014), OOPSLA, 453-472),
    at position ``place`` of the stream ``seed``.
    """
    with np.errstate(over="ignore"):
        z = _mixed(np.asarray([seed], np.uint64)) + (place + np.uint64(1)) * _GOLDEN
        return (_mixed(z) >> np.uint64(11)).astype(np.float64) * 2.0**-53


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mixed(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


class Flatness(NamedTuple):
    """Test of a rank histogram against a flat one.

    Attributes
    ----------
    chi2, p_value
        Statistic with (ranks - 1) degrees of freedom, and the probability of one as large.
    slope, convexity
        The parts of it with one degree of freedom each that tell a bias and a wrong spread.
    slope_p, convexity_p
        Their probabilities.
    """

    chi2: float
    p_value: float
    slope: float
    slope_p: float
    convexity: float
    convexity_p: float


def flatness(counts: Array) -> Flatness:
    """Chi-squared test of a rank histogram, with Jolliffe and Primo's (2008) components.

    Parameters
    ----------
    counts
        Number of *independent* pairs in each rank. Neighbouring points and dates are not
        independent: thin them first, or the test rejects what is flat.

    Raises
    ------
    InputError
        Fewer than three ranks, counts that are not whole numbers, or fewer than five expected
        in a rank (then the test does not hold).
    """
    n = np.asarray(counts, np.float64)
    if n.ndim != 1 or n.size < 3 or not np.all((n >= 0) & (n == np.round(n))):
        raise InputError("flatness: give the numbers of pairs in at least three ranks")
    expected = n.sum() / n.size
    if expected < 5:
        raise InputError(
            f"flatness: {expected:.1f} pairs are expected in a rank, at least 5 are needed; "
            "give more pairs, or fewer ranks by adding neighbouring ones"
        )
    chi2, p_value = stats.chisquare(n)
    x = np.linspace(-1, 1, n.size)
    parts = []
    for contrast in (x, x**2 - (x**2).mean()):
        part = float((contrast @ n) ** 2 / (contrast @ contrast) / expected)
        parts += [part, float(stats.chi2.sf(part, 1))]
    return Flatness(float(chi2), float(p_value), *parts)


def _interval(dist: xr.Dataset, level: float) -> tuple[xr.DataArray, xr.DataArray]:
    if not 0 < level < 1:
        raise InputError(f"a central interval has a probability between 0 and 1, not {level}")
    limits = [(1 - level) / 2, (1 + level) / 2]
    if distribution.form_of(dist) == "quantiles":
        given = dist["quantile"].values
        if limits[0] < given.min() - 1e-9 or limits[1] > given.max() + 1e-9:
            raise InputError(
                f"the {level:.0%} interval reaches beyond the quantiles given, {given.min():g} to "
                f"{given.max():g}; ask for a narrower one"
            )
        limits = [float(np.clip(limit, given.min(), given.max())) for limit in limits]
    if distribution.form_of(dist) == "members" and dist["value"].chunks is not None:
        dist = dist.chunk({"number": -1})
    found = distribution.quantile(dist, limits).astype(np.float64)
    low, high = (found.isel(quantile=i, drop=True) for i in (0, 1))
    return low, high


def _attrs(dist: xr.Dataset, units: str, level: float) -> dict[str, Any]:
    """Attributes of what is told of a central interval."""
    how = {"estimator": quantile_estimator(dist), "nan_policy": "propagate"}
    return {"units": units, "level": level, **how}


def sharpness(dist: xr.Dataset, level: float = 0.9) -> xr.DataArray:
    """Width of the central interval of probability ``level``, units of the field.

    Members: quantiles of their empirical distribution, linear between them.
    """
    low, high = _interval(dist, level)
    units = distribution.pattern(dist).attrs.get("units", "1")
    return (high - low).rename("sharpness").assign_attrs(_attrs(dist, units, level))


def covered(dist: xr.Dataset, truth: xr.DataArray, level: float = 0.9) -> xr.DataArray:
    """One where the truth lies in the central interval, zero elsewhere, NaN where one is NaN.

    Its average is to equal ``level``. For the interval of m members that is so only as m grows:
    their range itself covers (m - 1) / (m + 1).
    """
    _, obs = aligned(dist, truth)
    low, high = _interval(dist, level)
    inside = ((obs >= low) & (obs <= high)).astype(np.float64)
    there = low.notnull() & high.notnull() & obs.notnull()
    return inside.where(there).rename("covered").assign_attrs(_attrs(dist, "1", level))


def interval_score(dist: xr.Dataset, truth: xr.DataArray, level: float = 0.9) -> xr.DataArray:
    r"""Interval score of the central interval (Gneiting and Raftery 2007, sect. 6.2).

    .. math:: (u - l) + \frac{2}{\alpha}(l - y)_+ + \frac{2}{\alpha}(y - u)_+,
       \quad \alpha = 1 - \mathrm{level}

    float64 in the units of the field; NaN where any input is NaN.
    """
    _, obs = aligned(dist, truth)
    low, high = _interval(dist, level)
    y = obs.astype(np.float64)
    # a maximum of arrays, not of labels, keeps NaN
    outside = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
    attrs = _attrs(dist, truth.attrs.get("units", "1"), level)
    score = (high - low) + 2 / (1 - level) * outside
    return score.rename("interval_score").assign_attrs(attrs)
