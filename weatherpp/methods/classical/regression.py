r"""EMOS for any family: how its parameters hang on the ensemble, and the search for the best.

With :math:`\bar x` and :math:`s` the mean and the unbiased standard deviation of the members
and, where asked for, :math:`p` the fraction of dry ones:

location-scale families (normal, logistic, truncated normal, censored logistic)
    :math:`\mu = a + b\,\bar x + e\,p` and :math:`\sigma^2 = c + d\,s^2` or
    :math:`\log\sigma = c + d\,s`; for the squared censored logistic :math:`\bar x` and :math:`s`
    are those of the members' square roots (Gneiting et al. 2005; Thorarinsdottir and Gneiting
    2010; Messner et al. 2014); with a season, :math:`\mu` has :math:`\sum_k m_k w_k` more and
    :math:`\sigma` is :math:`\exp(\sum_k n_k w_k)` times as large, :math:`w_k` the sines and
    cosines of the day of the year and its multiples;
log-normal
    mean :math:`a + b\,\bar x` and variance :math:`c + d\,s^2` (Baran and Lerch 2015);
censored, shifted gamma
    :math:`w = a + b\,\bar x + e\,(1 - p)`, mean of the gamma
    :math:`m = u \log(1 + (e^k - 1) w / u) / k`, its standard deviation
    :math:`c \sqrt m + d\,s`, and a constant shift (Scheuerer and Hamill 2015, with :math:`s` in
    place of the members' mean difference and the unit :math:`u` in place of the climatology's
    mean).

:math:`b, c, d \ge 0` except for the location, where :math:`b` is free.

References
----------
See :mod:`weatherpp.families`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from weatherpp.errors import InputError
from weatherpp.families import FAMILIES
from weatherpp.families.base import STEP, Array, Family
from weatherpp.methods.classical.common import thinned

Criterion = Literal["crps", "likelihood"]
Link = Literal["variance", "log"]
POOLED_SAMPLES = 20_000  # enough to know seven numbers
ITERATIONS = 200  # most of a search; twenty or so are usual
FLOOR = 1e-6  # least variance and mean, in units of the scale
MOST_SHIFT = 2.0  # of the gamma, in units of the scale
FLAT = 1e-4  # largest slope of a mean score that counts as its minimum, in units of the scale


class Sample(NamedTuple):
    """What is learnt from, each (dates, points), NaN where a pair is missing.

    ``mean`` and ``sd`` of the members (of their square roots for a squared family), ``dry`` the
    fraction of dry members (zeros if it is no predictor), ``truth`` the analysis.
    """

    mean: Array
    sd: Array
    dry: Array
    truth: Array

    def seasons(self, waves: Array | None) -> tuple[Array, ...]:
        """Each of the ``waves`` (dates, number) at all points."""
        if waves is None:
            return ()
        return tuple(np.broadcast_to(wave[:, None], self.truth.shape) for wave in waves.T)


class Scales(NamedTuple):
    """Scales of a point, each (points,): what a search works in units of."""

    error: Array
    centre: Array
    anomaly: Array
    sd: Array


class Regression(ABC):
    """How the parameters of a family hang on coefficients and predictors.

    Attributes
    ----------
    names
        Names of the coefficients.
    start
        Where the search starts, in units of the scales.
    """

    names: tuple[str, ...]
    start: tuple[float, ...]

    def __init__(self, family: Family):
        self.family = family

    @abstractmethod
    def coefficients(self, theta: Array, scales: Scales) -> tuple[Array, ...]:
        """Coefficients of points with ``scales`` from ``theta`` (..., parameters)."""

    @abstractmethod
    def parameters(
        self,
        coefficients: Mapping[str, Any],
        mean: Any,
        sd: Any,
        dry: Any,
        waves: Sequence[Any] = (),
    ) -> Any:
        """Parameters of the family, in its order; arrays or DataArrays alike."""


class LocationScale(Regression):
    """Location linear in the mean; scale by the variance, or its logarithm by the spread; both
    with so many ``harmonics`` of the year.
    """

    def __init__(self, family: Family, link: Link, dry: bool, harmonics: int = 0):
        super().__init__(family)
        self.link = link
        self.waves = 2 * harmonics
        seasonal = [f"{part}{k + 1}" for k in range(self.waves) for part in "mn"]
        self.names = ("a", "b", "c", "d", *(("e",) if dry else ()), *seasonal)
        scale = (0.5, 0.5) if link == "variance" else (-0.5, 0.2)
        self.start = (0.0, 0.0, *scale, *(0.0 for _ in self.names[4:]))

    def coefficients(self, theta: Array, scales: Scales) -> tuple[Array, ...]:
        first = theta.shape[-1] - 2 * self.waves
        shift, tilt, c, d, *more = np.moveaxis(theta[..., :first], -1, 0)
        unit = scales.error
        tilt = tilt * np.where(scales.anomaly > 0, unit / _positive(scales.anomaly), 0.0)
        ratio = np.where(scales.sd > 0, unit / _positive(scales.sd), 0.0)
        if self.link == "variance":
            by_sd = (c**2 + FLOOR) * unit**2, (d * ratio) ** 2
        else:
            by_sd = c + np.log(unit), d * ratio / unit
        line = shift * unit - tilt * scales.centre, 1.0 + tilt
        seasonal = [
            value * unit if name.startswith("m") else value + 0.0 * unit
            for name, value in zip(
                self.names[first:], np.moveaxis(theta[..., first:], -1, 0), strict=True
            )
        ]
        return *line, *by_sd, *(e * unit for e in more), *seasonal

    def parameters(
        self,
        coefficients: Mapping[str, Any],
        mean: Any,
        sd: Any,
        dry: Any,
        waves: Sequence[Any] = (),
    ) -> Any:
        location = coefficients["a"] + coefficients["b"] * mean
        if "e" in self.names:
            location = location + coefficients["e"] * dry
        if self.link == "variance":
            scale = np.sqrt(coefficients["c"] + coefficients["d"] * sd**2)
        else:
            scale = np.exp(coefficients["c"] + coefficients["d"] * sd)
        for k, wave in enumerate(waves, start=1):
            location = location + coefficients[f"m{k}"] * wave
            scale = scale * np.exp(coefficients[f"n{k}"] * wave)
        return location, scale


class LogNormalMoments(Regression):
    """Mean linear in the mean, variance in the variance."""

    names = ("a", "b", "c", "d")
    start = (0.3, 1.0, 0.7, 0.7)

    def coefficients(self, theta: Array, scales: Scales) -> tuple[Array, ...]:
        a, b, c, d = np.moveaxis(theta, -1, 0) ** 2
        unit = scales.error
        ratio = np.where(scales.sd > 0, unit / _positive(scales.sd), 0.0)
        return (a + FLOOR) * unit, b, (c + FLOOR) * unit**2, d * ratio**2

    def parameters(
        self,
        coefficients: Mapping[str, Any],
        mean: Any,
        sd: Any,
        dry: Any,
        waves: Sequence[Any] = (),
    ) -> Any:
        centre = coefficients["a"] + coefficients["b"] * mean
        relative = (coefficients["c"] + coefficients["d"] * sd**2) / centre**2
        return centre / np.sqrt(1 + relative), np.sqrt(np.log1p(relative))


class ShiftedGamma(Regression):
    """Mean curved in the mean, standard deviation by the root of it and the spread."""

    def __init__(self, family: Family, dry: bool):
        super().__init__(family)
        self.names = ("a", "b", "c", "d", "shift", "curve", "unit", *(("e",) if dry else ()))
        self.start = (0.3, 0.9, 0.9, 0.5, 0.3, 0.5, *((0.3,) if dry else ()))

    def coefficients(self, theta: Array, scales: Scales) -> tuple[Array, ...]:
        a, b, c, d, shift, curve, *more = np.moveaxis(theta, -1, 0) ** 2
        unit = scales.error
        ratio = np.where(scales.sd > 0, unit / _positive(scales.sd), 0.0)
        first = (a + 1e-3) * unit, b, (c + 0.03) * np.sqrt(unit), d * ratio
        # a shift without bounds would go on for ever where a normal distribution fits better
        shift = MOST_SHIFT * shift / (1 + shift) + FLOOR
        return *first, shift * unit, curve + 1e-3, unit, *(e * unit for e in more)

    def parameters(
        self,
        coefficients: Mapping[str, Any],
        mean: Any,
        sd: Any,
        dry: Any,
        waves: Sequence[Any] = (),
    ) -> Any:
        linear = coefficients["a"] + coefficients["b"] * mean
        if "e" in self.names:
            linear = linear + coefficients["e"] * (1.0 - dry)
        curve, unit = coefficients["curve"], coefficients["unit"]
        centre = unit * np.log1p(np.expm1(curve) * linear / unit) / curve
        width = coefficients["c"] * np.sqrt(centre) + coefficients["d"] * sd
        # a constant field beside one of every date and point, so that all have the same shape
        shift = coefficients["shift"] + 0.0 * centre
        return width**2 / centre, (centre / width) ** 2, shift


def regression(family: str, link: Link, dry: bool, harmonics: int = 0) -> Regression:
    """The regression of a family; those without a location and a scale have no ``harmonics``."""
    found = FAMILIES[family]
    if family == "log-normal":
        return LogNormalMoments(found)
    if family == "censored-shifted-gamma":
        return ShiftedGamma(found, dry)
    return LocationScale(found, link, dry, harmonics)


def _positive(values: Array) -> Array:
    """``values`` with one in place of zero, to divide by."""
    return np.where(values > 0, values, 1.0)


class Fit(NamedTuple):
    """Coefficients by name, each (points,); points whose search failed, and those without one."""

    coefficients: dict[str, Array]
    failed: int
    pooled: int


def fit_regression(
    model: Regression,
    sample: Sample,
    groups: NDArray[np.intp],
    *,
    criterion: Criterion = "crps",
    prior: float = 2.0,
    waves: Array | None = None,
) -> Fit:
    """The coefficients of each group of points that give the least mean score.

    Parameters
    ----------
    model
        From :func:`regression`.
    sample
        Training sample; a pair with NaN in one of its parts does not count.
    groups
        (points,) number of each point's group; below zero for the coefficients of all points.
    criterion
        ``crps`` or ``likelihood`` (the mean logarithmic score).
    prior
        Pull towards the coefficients of all points together: a quadratic penalty with the weight
        of so many dates, in units of each point's own scales.
    waves
        (dates, number) from :func:`weatherpp.methods.season.harmonics`, for models that have them.

    Returns
    -------
    A group whose search does not end in a minimum takes the coefficients of all points; its
    points, and all points if the search for these does not end in one, count in ``failed``.

    Raises
    ------
    InputError
        No pair of forecast and truth, or truths that the family gives no probability.
    """
    there = np.isfinite(sample.mean) & np.isfinite(sample.truth)
    if not there.any():
        raise InputError("EMOS: no date has both a forecast and an analysis")
    sample = Sample(*(np.where(there, part, np.nan) for part in sample))
    sample = sample._replace(truth=_within(model.family, sample.truth, criterion))
    scales = _scales(model.family, sample, prior)
    every = np.ones(groups.size, dtype=bool)
    seasons = sample.seasons(waves)
    start = np.array(model.start)
    centre, good = _search(model, sample, seasons, scales, every, criterion, start, 0.0)
    theta = np.tile(centre, (groups.size, 1))
    failed = 0 if good else int((groups < 0).sum())
    for group in np.unique(groups[groups >= 0]):
        inside = groups == group
        found, good = _search(model, sample, seasons, scales, inside, criterion, centre, prior)
        failed += 0 if good else int(inside.sum())
        theta[inside] = found if good else centre
    own = model.coefficients(theta, scales)
    return Fit(dict(zip(model.names, own, strict=True)), failed, int((groups < 0).sum()))


def _within(family: Family, truth: Array, criterion: Criterion) -> Array:
    """``truth`` with rounding below the floor taken off, refused if it is more than that."""
    low = float(np.nanmin(truth))
    if low < family.floor - 1e-6 * float(np.nanmax(np.abs(truth))):
        raise InputError(
            f"EMOS: the {family.name} family has no values below {family.floor:g}, the analysis "
            f"has {low:g}; choose another family"
        )
    if criterion == "likelihood" and family.name == "log-normal" and low <= 0:
        raise InputError(
            "EMOS: the log-normal family gives zero no likelihood, and the analysis has zeros; "
            "choose another family or criterion crps"
        )
    return np.maximum(truth, family.floor)


def _scales(family: Family, sample: Sample, prior: float) -> Scales:
    """Scales of each point, leaning on all points as if on ``prior`` dates."""

    def scale(squares: Array) -> Array:
        there = ~np.isnan(squares)
        mean = squares.mean(where=there)
        dates = _positive(there.sum(axis=0) + prior)
        out: Array = np.sqrt((squares.sum(axis=0, where=there) + prior * mean) / dates)
        return out

    error = (sample.truth ** family.powers[0]) - sample.mean
    unit = _positive(np.maximum(scale(error**2), 1e-6 * np.sqrt(np.nanmean(error**2))))
    there = ~np.isnan(sample.mean)
    centre = sample.mean.sum(axis=0, where=there) / _positive(there.sum(axis=0))
    anomaly = scale((sample.mean - centre) ** 2)
    # rounding of float32 fields near 280 is no anomaly
    anomaly = np.where(anomaly > 1e-6 * np.abs(centre), anomaly, 0.0)
    return Scales(unit, centre, anomaly, scale(sample.sd**2))


def _search(
    model: Regression,
    sample: Sample,
    seasons: Sequence[Array],
    scales: Scales,
    inside: NDArray[np.bool_],
    criterion: Criterion,
    centre: Array,
    prior: float,
) -> tuple[Array, bool]:
    """Parameters of the points ``inside`` together, and whether the search ended in a minimum."""
    there = ~np.isnan(sample.truth[:, inside])
    every = thinned(there, POOLED_SAMPLES)
    if not there.any():
        return centre, False
    mean, sd, dry, truth = (part[:, inside][there][every] for part in sample)
    own_waves = [wave[:, inside][there][every] for wave in seasons]
    rows = Scales(*(np.broadcast_to(s[inside], there.shape)[there][every] for s in scales))
    family = model.family
    crps = criterion == "crps"
    # a score in the units of the truth, a location in those of its root for a squared family
    unit = rows.error ** (1 / family.powers[0]) if crps else np.ones_like(rows.error)
    scorer, sloper = (
        (family.crps, family.crps_slopes) if crps else (family.log_score, family.log_slopes)
    )

    def parameters(theta: Array) -> tuple[Array, ...]:
        own = dict(zip(model.names, model.coefficients(theta, rows), strict=True))
        return tuple(model.parameters(own, mean, sd, dry, own_waves))

    def objective(theta: Array) -> tuple[float, Array]:
        gap = theta - centre
        weight = prior / truth.size
        with np.errstate(all="ignore"):
            now = parameters(theta)
            value = float((scorer(truth, *now) / unit).mean()) + 0.5 * weight * float(gap @ gap)
            slopes = [slope / unit / truth.size for slope in sloper(truth, *now)]
            gradient = weight * gap
            for i in range(theta.size):
                step = np.zeros_like(theta)
                step[i] = STEP * max(1.0, abs(theta[i]))
                ends = zip(slopes, parameters(theta + step), parameters(theta - step), strict=True)
                gradient[i] += sum(float(s @ (up - down)) for s, up, down in ends) / (2 * step[i])
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return 1e10, np.zeros_like(theta)  # a step too far: the line search takes it back
        return value, gradient

    found = optimize.minimize(
        objective,
        centre,
        jac=True,
        method="BFGS",
        options={"maxiter": ITERATIONS, "gtol": FLAT / 100},
    )
    value, gradient = objective(found.x)
    return found.x, bool(value < 1e10 and np.abs(gradient).max() < FLAT)
