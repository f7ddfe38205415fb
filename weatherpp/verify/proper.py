r"""Further proper scores of a predictive distribution, point by point: Brier, quantile, log score.

They are averaged by :func:`weatherpp.verify.averages.average`.

References
----------
Brier, G. W. (1950), Mon. Wea. Rev. 78, 1-3.
Good, I. J. (1952), J. R. Stat. Soc. B 14, 107-114 (logarithmic score).
Ferro, C. A. T. (2014), Q. J. R. Meteorol. Soc. 140, 1917-1923 (fair Brier score).
Gneiting, T. and Raftery, A. E. (2007), J. Amer. Statist. Assoc. 102, 359-378 (quantile score).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import xarray as xr

from weatherpp import distribution
from weatherpp.errors import InputError
from weatherpp.families import FAMILIES
from weatherpp.verify import scores
from weatherpp.verify.alignment import aligned
from weatherpp.verify.kernels import NanPolicy, check_policy
from weatherpp.verify.scores import refuse_nan

PROPAGATED = ("raise", "propagate")
"""Policies of scores that fewer members would make another score."""


def brier(
    dist: xr.Dataset,
    truth: xr.DataArray,
    threshold: float,
    estimator: Literal["plain", "fair"] = "plain",
    *,
    nan_policy: NanPolicy = "propagate",
) -> xr.DataArray:
    r"""Brier score of the event "more than ``threshold``".

    .. math:: (p - o)^2 - \frac{i (m - i)}{m^2 (m - 1)}

    with the second term for ``fair`` members of which i exceed the threshold (Ferro 2014).

    Parameters
    ----------
    dist, truth
        Any form, and the truth on the same points.
    threshold
        In the units of the field.
    estimator
        ``fair`` for members alone.
    nan_policy
        ``propagate``: NaN where any input is NaN. ``omit``: probabilities of the members that a
        point has. ``raise``: NaN is refused.

    Returns
    -------
    float64, no unit.

    Raises
    ------
    InputError
        Not aligned; ``fair`` for another form or one member; a threshold of NaN, or NaN under
        ``raise``.
    """
    check_policy(nan_policy)
    form, obs = aligned(dist, truth)
    if estimator not in ("plain", "fair"):
        raise InputError(f"Brier score estimator '{estimator}'; known: plain, fair")
    if estimator == "fair" and form != "members":
        raise InputError(f"a {form} distribution has one Brier score; leave the estimator out")
    if np.isnan(threshold):
        raise InputError("Brier score: the threshold is NaN")
    event = (obs > threshold).astype(np.float64).where(obs.notnull())
    attrs = {"units": "1", "threshold": threshold, "nan_policy": nan_policy}
    if form != "members":
        score = (distribution.exceedance(dist, threshold) - event) ** 2
    else:
        value = dist["value"]
        m = value.sizes["number"]
        if estimator == "fair" and m < 2:
            raise InputError("the fair Brier score needs at least two members; ask for 'plain'")
        count = value.notnull().sum("number")
        count = count.where(count >= (1 if nan_policy == "omit" else m))
        above = (value > threshold).sum("number")
        score = (above / count - event) ** 2
        if estimator == "fair":
            several = count.where(count > 1)
            score = score - above * (several - above) / (several**2 * (several - 1))
        attrs |= {"members": m}
    score = score.transpose(*obs.dims).rename("brier").drop_attrs()
    return refuse_nan(score.assign_attrs({**attrs, "estimator": estimator}), nan_policy)


def quantile_score(
    dist: xr.Dataset,
    truth: xr.DataArray,
    levels: Sequence[float],
    *,
    nan_policy: Literal["raise", "propagate"] = "propagate",
) -> xr.DataArray:
    r"""Quantile score (pinball loss) of the quantiles at ``levels``.

    .. math:: \max(\tau (y - q),\; (\tau - 1)(y - q))

    Parameters
    ----------
    dist, truth
        Any form, and the truth on the same points. Members give the quantiles of their empirical
        distribution, linear between them.
    levels
        In (0, 1).
    nan_policy
        ``propagate`` or ``raise``; a quantile of fewer members is another quantile.

    Returns
    -------
    (quantile, ...) float64 in the units of the truth.

    Raises
    ------
    InputError
        Not aligned; levels beyond (0, 1), or beyond those that the distribution has; NaN under
        ``raise``.
    """
    check_policy(nan_policy, PROPAGATED)
    form, obs = aligned(dist, truth)
    given = np.asarray(levels, np.float64)
    if not given.size or not np.all((given > 0) & (given < 1)):
        raise InputError(f"quantile levels lie between 0 and 1, not {list(levels)}")
    if form == "quantiles":
        known = dist["quantile"].values
        if given.min() < known.min() or given.max() > known.max():
            raise InputError(
                f"the distribution has quantiles from {known.min():g} to {known.max():g} alone"
            )
    if form == "members" and dist["value"].chunks is not None:
        dist = dist.chunk({"number": -1})
    value = distribution.quantile(dist, list(levels)).astype(np.float64)
    error = obs.astype(np.float64) - value
    level = value["quantile"]
    # a maximum that keeps NaN
    loss = (level * error).where(error >= 0, (level - 1) * error).transpose("quantile", *obs.dims)
    attrs = {"units": truth.attrs.get("units", "1"), "nan_policy": nan_policy}
    attrs["estimator"] = scores.quantile_estimator(dist)
    named = loss.rename("quantile_score").drop_attrs().assign_attrs(attrs)
    return refuse_nan(named, nan_policy, PROPAGATED)


def log_score(
    dist: xr.Dataset,
    truth: xr.DataArray,
    *,
    gaussian: bool = False,
    nan_policy: Literal["raise", "propagate"] = "propagate",
) -> xr.DataArray:
    """Logarithmic score: minus the natural logarithm of the density at the truth.

    Where a family gives the truth's value a probability (no rain), of that probability. It
    depends on the field's unit, by a constant.

    Parameters
    ----------
    dist, truth
        A named family, or members with ``gaussian``, and the truth on the same points.
    gaussian
        Take for members the normal distribution with their mean and unbiased standard deviation.
    nan_policy
        ``propagate`` or ``raise``.

    Returns
    -------
    float64; infinite where the distribution rules the truth out, as one without any spread does
    beside its one value. On that value there is no density: NaN.

    Raises
    ------
    InputError
        Not aligned; members without ``gaussian``, and quantiles: they have no density; NaN under
        ``raise``.
    """
    check_policy(nan_policy, PROPAGATED)
    form, obs = aligned(dist, truth)
    method = form
    if form == "members" and gaussian:
        spread = scores.variance(dist) ** 0.5
        dist = distribution.normal(scores.mean(dist), spread)
        method = "normal distribution with the members' mean and unbiased standard deviation"
    elif form not in FAMILIES:
        raise InputError(
            f"a distribution of the form '{form}' has no density; take the CRPS, or for members "
            "gaussian=True"
        )
    family = FAMILIES[distribution.form_of(dist)]

    def score(y: scores.Array, *parameters: scores.Array) -> scores.Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            out = np.asarray(family.log_score(y, *parameters))
            # without spread: the CRPS is the distance from the one value, NaN for a missing one
            beside = np.isnan(out) & (np.asarray(family.crps(y, *parameters)) > 0)
        out = np.where(beside, np.inf, out)
        return np.where(y < family.floor, np.where(np.isnan(out), out, np.inf), out)

    names = distribution.FORMS[family.name]
    fields = [dist[name].astype(np.float64) for name in names]
    found = scores.pointwise(score, obs.astype(np.float64), *fields).rename("log_score")
    attrs = {"units": "1", "method": method, "nan_policy": nan_policy}
    attrs["estimator"] = form if form in FAMILIES else "gaussian"
    return refuse_nan(found.assign_attrs(attrs), nan_policy, PROPAGATED)
