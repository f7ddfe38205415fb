r"""Member-by-member correction: every member moved, their order and their patterns kept.

.. math:: x_m' = a + b\,\bar x + \left(c + \frac{d}{\delta}\right)(x_m - \bar x),
          \qquad c, d \ge 0

with :math:`\bar x` the mean of the members and :math:`\delta = m^{-2} \sum_{ij} |x_i - x_j|`
their mean absolute difference; that of the corrected members is then :math:`c\,\delta + d`. The
parameters minimise the mean CRPS of the corrected members over the training dates,
:math:`\overline{|x' - y|} - \delta'/2`, which is convex in them: a sum of absolute values less a
linear term. It is minimised by repeated weighted least squares (Hunter and Lange 2000), each of
which can only lower it.

It has to be the plain CRPS. Deviations from the mean of the same members are no independent draws,
and the fair CRPS rewards inflating them, without bound for two members. For Gaussian errors of
variance :math:`\sigma^2` of the mean, the plain one gives members of variance
:math:`\sigma^2 m / (m + 1)`: the truth is then as far from a member as another member is.

References
----------
Van Schaeybroeck, B. and Vannitsem, S. (2015), Q. J. R. Meteorol. Soc. 141, 807-818,
doi:10.1002/qj.2397.
Hunter, D. R. and Lange, K. (2000), J. Comput. Graph. Statist. 9, 60-77.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from pydantic import Field

from weatherpp import distribution
from weatherpp.errors import InputError
from weatherpp.methods.base import FitData
from weatherpp.methods.classical.common import (
    ParameterMethod,
    PointSettings,
    on_dates,
    same_grid,
    target_members,
    thinned,
    training_pairs,
)

Array = NDArray[np.float64]
STEPS = 500  # most at a point; some dozens are usual
POOLED_SAMPLES = 50_000  # dates and points; enough to know four numbers
START = (0.0, 0.0, 0.5, 0.5)  # unbiased, b = 1, half of the spread from the members


class Coefficients(NamedTuple):
    """Coefficients a, b, c, d of each point (float64).

    ``failed`` counts the points whose search did not end, ``pooled`` those with too few dates.
    """

    a: Array
    b: Array
    c: Array
    d: Array
    failed: int
    pooled: int = 0


class _Sample(NamedTuple):
    """Training sample, all in units of ``error``, the size of the error of the mean at the point.

    ``e`` error of the mean, ``u`` anomaly of the mean, ``unit`` the inverse of the members' mean
    difference, ``half`` half that difference: (points, dates), NaN in ``e`` is a gap; ``dev``
    deviations of the members from their mean: (points, dates, members). ``centre`` and ``error``
    are (points,).
    """

    e: Array
    u: Array
    dev: Array
    unit: Array
    half: Array
    centre: Array
    error: Array


def mean_difference(members: NDArray[Any]) -> Array:
    """Mean absolute difference of two members drawn with replacement; they are the last axis.

    Returns
    -------
    float64 without the last axis; NaN where a member is NaN.
    """
    m = members.shape[-1]
    ordered = np.sort(members.astype(np.float64), axis=-1)
    # differences to the lowest, so that nothing is lost for values far from zero
    ordered -= ordered[..., :1]
    weights = 2.0 * (2.0 * np.arange(1, m + 1) - m - 1) / m**2
    out: Array = ordered @ weights
    return out


def _inverse(difference: Array) -> Array:
    """One over the difference; zero where the members are all the same, which stay so."""
    return np.divide(1.0, difference, out=np.zeros_like(difference), where=difference > 0)


def _standardise(members: NDArray[Any], truth: Array, prior: float) -> _Sample:
    """From members (points, dates, members) and truth (points, dates), NaN at gaps."""
    mean = members.mean(axis=-1, dtype=np.float64)
    e = truth - mean
    there = ~np.isnan(e)
    dates = there.sum(axis=1)
    centre = mean.sum(axis=1, where=there) / np.maximum(dates, 1)
    squares, typical = np.nansum(e**2, axis=1), float(np.nanmean(e**2))
    # leans on all points as if on ``prior`` dates; never zero, as it divides
    error = np.sqrt((squares + prior * typical) / np.maximum(dates + prior, 1))
    error = np.maximum(error, 1e-6 * np.sqrt(typical) or 1.0)
    difference = mean_difference(members) / error[:, None]
    return _Sample(
        e=e / error[:, None],
        u=(mean - centre[:, None]) / error[:, None],
        dev=(members - mean[..., None]) / error[:, None, None],
        unit=_inverse(difference),
        half=0.5 * difference,
        centre=centre,
        error=error,
    )


def _search(sample: _Sample, centre: Array, prior: float) -> tuple[Array, NDArray[np.bool_]]:
    """Parameters (points, 4) in the units of the sample, and where the search ended."""
    from weatherpp.methods.classical import mbm_loop

    points = len(sample.e)
    theta = np.tile(centre, (points, 1))
    good = np.zeros(points, dtype=np.bool_)
    mbm_loop.minimise(*sample[:5], theta, centre, float(prior), STEPS, good)
    return theta, good


def _together(sample: _Sample) -> Array:
    """Parameters of all points together, each point in its own units."""
    there = ~np.isnan(sample.e)
    every = thinned(there, POOLED_SAMPLES)
    e, u, dev, unit, half = (part[there][every][None] for part in sample[:5])
    one = sample._replace(e=e, u=u, dev=dev, unit=unit, half=half)
    theta, _ = _search(one, np.array(START), 0.0)
    together: Array = theta[0]
    return together


def fit_coefficients(
    members: NDArray[Any],
    truth: Array,
    *,
    prior: float = 2.0,
    pool: bool = False,
    least: int = 2,
) -> Coefficients:
    """Minimise the mean CRPS of the corrected members at every point.

    Parameters
    ----------
    members
        (points, dates, members), at least two members.
    truth
        (points, dates) float64. A date with NaN in it or in a member does not count.
    prior
        Pull towards the coefficients of all points together: a quadratic penalty with the weight
        of so many dates, in units of the error of the mean.
    pool
        One set of coefficients for all points; ``prior`` is then of no effect.
    least
        Points with fewer dates than this (or than all, where these are fewer) take the
        coefficients of ``pool``.

    Raises
    ------
    InputError
        Shapes differ, one member, or no date is left.
    """
    if members.shape[:2] != truth.shape or members.ndim != 3 or members.shape[2] < 2:
        raise InputError(f"member-by-member: shapes {members.shape}, {truth.shape} do not fit")
    there = np.isfinite(truth) & np.isfinite(members).all(axis=-1)
    if not there.any():
        raise InputError("member-by-member: no date has both a forecast and an analysis")
    if pool:
        every = thinned(there, POOLED_SAMPLES)
        one = fit_coefficients(members[there][every][None], truth[there][every][None], prior=0.0)
        a, b, c, d = (np.repeat(part, len(truth)) for part in one[:4])
        return Coefficients(a, b, c, d, one.failed * len(truth))
    sample = _standardise(members, np.where(there, truth, np.nan), prior)
    theta, good = _search(sample, _together(sample), prior)
    found = Coefficients(
        a=theta[:, 0] * sample.error - theta[:, 1] * sample.centre,
        b=1.0 + theta[:, 1],
        c=theta[:, 2],
        d=theta[:, 3] * sample.error,
        failed=int((~good).sum()),
    )
    few = there.sum(axis=1) < min(least, truth.shape[1])
    if not few.any():
        return found
    common = fit_coefficients(members, truth, pool=True)
    for own, part in zip(found[:4], common[:4], strict=True):
        own[few] = part[few]
    return found._replace(failed=int((~good & ~few).sum()), pooled=int(few.sum()))


class MbmSettings(PointSettings):
    """Settings of :class:`MemberByMember`."""

    scope: Literal["local", "global"] = "local"
    prior: float = Field(
        default=2.0, ge=0, description="pull of a point towards all points together, in dates"
    )


class MemberByMember(ParameterMethod):
    """Every member corrected by itself, with coefficients of its own at each point.

    Gives as many members as it got; the order of the members at a point, and so their patterns
    in space and between variables, are those of the raw ensemble.
    """

    name: ClassVar[str] = "mbm"
    Settings = MbmSettings
    min_members: ClassVar[int] = 2

    def fit(self, data: FitData) -> Self:
        """Coefficients from the training dates.

        Raises
        ------
        InputError
            No training dates, no analyses, one member, NaN, or different grids.
        """
        mean, truth = training_pairs(data, self.name)
        members = on_dates(target_members(data.forecast, self.target), data.train, "forecast")
        if members.sizes["number"] < 2:
            raise InputError("method mbm needs at least two members; give it more of them")
        grid = mean.isel(time=0, drop=True)
        count = members.sizes["number"]
        order = (*grid.dims, "time")
        fit = fit_coefficients(
            members.transpose(*order, "number").values.reshape(-1, len(data.train), count),
            truth.transpose(*order).values.astype(np.float64).reshape(-1, len(data.train)),
            prior=self.settings.prior,
            pool=self.settings.scope == "global",
            least=self.settings.least_dates,
        )
        fields = {
            name: xr.DataArray(values.reshape(grid.shape), dims=grid.dims, coords=grid.coords)
            for name, values in zip("abcd", fit[:4], strict=True)
        }
        units = truth.attrs.get("units", "1")
        fields["a"].attrs["units"] = fields["d"].attrs["units"] = units
        counts = {"dates": len(data.train), "not_converged": fit.failed, "pooled": fit.pooled}
        self.parameters = xr.Dataset(fields, attrs=counts)
        return self

    def predict(self, forecast: xr.Dataset) -> xr.Dataset:
        """Distribution of members, in the type of the forecast; NaN where a member is."""
        members = target_members(forecast, self.target)
        parameters = self.fitted()
        same_grid(parameters, members)
        wide = members.astype(np.float64)
        if wide.chunks is not None:
            wide = wide.chunk(number=-1)
        mean = wide.mean("number", skipna=False)
        inverse = xr.apply_ufunc(
            lambda values: _inverse(mean_difference(values)),
            wide,
            input_core_dims=[["number"]],
            dask="parallelized",
            output_dtypes=[np.float64],
        )
        factor = parameters["c"] + parameters["d"] * inverse
        value = parameters["a"] + parameters["b"] * mean + factor * (wide - mean)
        value = value.transpose(*members.dims).astype(members.dtype)
        return distribution.members(value.assign_attrs(members.attrs), **self.dist_attrs())
