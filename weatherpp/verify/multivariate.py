r"""Scores of several points, variables or lead times together.

They are computed by scoringrules' compiled functions, in float64, one case after another and
without arrays of all pairs. A member with a gap has no place among the others, so members with
NaN are not left out: ``nan_policy`` is ``raise`` or ``propagate``.

References
----------
Gneiting, T. and Raftery, A. E. (2007), J. Amer. Statist. Assoc. 102, 359-378 (energy score).
Scheuerer, M. and Hamill, T. M. (2015), Mon. Wea. Rev. 143, 1321-1334 (variogram score).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal, get_args

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from weatherpp.errors import InputError
from weatherpp.verify.alignment import aligned, members_of
from weatherpp.verify.kernels import check_policy
from weatherpp.verify.scores import refuse_nan
from weatherpp.verify.weights import check_part, check_weights

Array = NDArray[np.float64]
Policy = Literal["raise", "propagate"]


def _together(
    dist: xr.Dataset,
    truth: xr.DataArray,
    over: Sequence[Hashable],
    what: str,
    function: Callable[[Array, Array], Array],
    nan_policy: Policy,
) -> xr.DataArray:
    check_policy(nan_policy, get_args(Policy))
    over = _listed(over)
    value = members_of(dist, what)
    _, obs = aligned(dist, truth)
    missing = [str(dim) for dim in over if dim not in obs.dims]
    if len(set(over)) < len(over):
        raise InputError(f"{what}: a dimension is given twice")
    if missing or not over:
        raise InputError(
            f"{what}: no dimension {', '.join(missing) or 'given'} to take together; there are "
            f"{', '.join(map(str, obs.dims))}"
        )
    if value.sizes["number"] < 2:
        raise InputError(f"{what} needs at least two members")
    if value.chunks is not None:
        value = value.chunk(dict.fromkeys(("number", *over), -1))
    if obs.chunks is not None:
        obs = obs.chunk(dict.fromkeys(over, -1))

    def score(members: NDArray[Any], observed: NDArray[Any]) -> Array:
        dims = len(over)
        x = members.astype(np.float64).reshape(*members.shape[:-dims], -1)
        y = observed.astype(np.float64).reshape(*observed.shape[:-dims], -1)
        found = np.asarray(function(y, x), np.float64)
        gone = np.isnan(x).any(axis=(-2, -1)) | np.isnan(y).any(axis=-1)
        return np.where(gone, np.nan, found)

    out: xr.DataArray = xr.apply_ufunc(
        score,
        value,
        obs,
        input_core_dims=[["number", *over], list(over)],
        join="exact",
        dask="parallelized",
        output_dtypes=[np.float64],
    )
    attrs = {"members": value.sizes["number"], "over": " ".join(map(str, over))}
    name = what.removeprefix("the ").replace(" ", "_")
    named = out.rename(name).assign_attrs({**attrs, "nan_policy": nan_policy})
    return refuse_nan(named, nan_policy, get_args(Policy))


def _listed(over: str | Sequence[Hashable]) -> list[Hashable]:
    """Dimensions as a list; a name alone is one, not its letters."""
    return [over] if isinstance(over, str) else list(over)


def _weights(
    weights: xr.DataArray | None, truth: xr.DataArray, over: Sequence[Hashable]
) -> Array | None:
    """Weights of the values that are taken together, in their order, mean 1."""
    if weights is None:
        return None
    over = _listed(over)
    like = truth.isel({dim: 0 for dim in truth.dims if dim not in over}, drop=True)
    check_part(weights, like, ("weights", "the truth"))
    check_weights(weights)
    whole = weights.drop_vars(list(weights.coords)).broadcast_like(like.drop_vars(like.coords))
    flat = whole.transpose(*over).values.astype(np.float64).ravel()
    out: Array = flat / flat.mean()
    return out


def energy_score(
    dist: xr.Dataset,
    truth: xr.DataArray,
    over: Sequence[Hashable],
    estimator: Literal["plain", "fair"] = "fair",
    *,
    weights: xr.DataArray | None = None,
    nan_policy: Policy = "propagate",
) -> xr.DataArray:
    r"""Energy score of the values along ``over`` taken as one vector.

    .. math:: \frac1m \sum_i \|x_i - y\| - w \sum_{i<j} \|x_i - x_j\|

    with w as for the CRPS, which it is for vectors of one value.

    Parameters
    ----------
    dist, truth
        Members, and the truth on the same points.
    over
        Dimensions to take together. Variables of different units are to be standardised first.
    estimator
        ``plain`` or ``fair``, see :mod:`weatherpp.verify.kernels`.
    weights
        Of the squares in the norm, with some of the dimensions ``over``, as from
        :func:`weatherpp.verify.weights.grid_weights`; their mean is made 1.
    nan_policy
        ``propagate`` or ``raise``.

    Returns
    -------
    float64 in the units of the truth, with its other dimensions.

    Raises
    ------
    InputError
        No members, fewer than two, not aligned, a dimension that is not there, weights that do
        not fit; NaN under ``raise``.
    """
    names = {"plain": "nrg", "fair": "fair"}
    if estimator not in names:
        raise InputError(f"energy score estimator '{estimator}'; known: plain, fair")
    w = _weights(weights, truth, over)

    def function(y: Array, x: Array) -> Array:
        import scoringrules

        root = 1.0 if w is None else np.sqrt(w)
        found: Array = scoringrules.es_ensemble(
            y * root, x * root, estimator=names[estimator], backend="numba"
        )
        return found

    out = _together(dist, truth, over, "the energy score", function, nan_policy)
    return out.assign_attrs(units=truth.attrs.get("units", "1"), estimator=estimator)


def variogram_score(
    dist: xr.Dataset,
    truth: xr.DataArray,
    over: Sequence[Hashable],
    order: float = 0.5,
    *,
    weights: xr.DataArray | None = None,
    nan_policy: Policy = "propagate",
) -> xr.DataArray:
    r"""Variogram score of the values along ``over``: whether their differences are right.

    .. math:: \sum_{k,l} w_k w_l \Big(|y_k - y_l|^p - \frac1m \sum_i |x_{ik} - x_{il}|^p\Big)^2

    It takes time that grows with the square of the number of values: some hundred at most.

    Parameters
    ----------
    dist, truth, over, nan_policy
        As in :func:`energy_score`.
    order
        p.
    weights
        Of the values, with some of the dimensions ``over``; their mean is made 1.

    Returns
    -------
    float64, units to the power 2p, with the truth's other dimensions.

    Raises
    ------
    InputError
        As :func:`energy_score`.
    """
    if not order > 0:
        raise InputError(f"variogram score: the order {order:g} must be above zero")
    w = _weights(weights, truth, over)

    def function(y: Array, x: Array) -> Array:
        import scoringrules

        pairs = None if w is None else np.multiply.outer(w, w)
        if pairs is not None:
            pairs = np.broadcast_to(pairs, (*y.shape[:-1], *pairs.shape))
        found: Array = scoringrules.vs_ensemble(y, x, pairs, p=order, backend="numba")
        return found

    out = _together(dist, truth, over, "the variogram score", function, nan_policy)
    units = f"({truth.attrs.get('units', '1')}){2 * order:g}"
    return out.assign_attrs(units=units, order=order, estimator="plain")
