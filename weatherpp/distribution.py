"""The predictive distribution: what every method gives and everything behind it takes.

A predictive distribution is a Dataset for *one* target field. Its attribute ``distribution``
tells the form:

``normal``
    variables ``mean`` and ``spread`` (the standard deviation);
``quantiles``
    variable ``value`` with the dimension ``quantile`` (levels in (0, 1), ascending);
``members``
    variable ``value`` with the dimension ``number``.

All carry ``units`` on their variables, and the Dataset the attributes ``variable`` (short name)
and ``target`` (for example ``z500``). The remaining dimensions are those of the forecast field:
``time`` and the grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from scipy import special

from weatherpp.errors import InputError

FORMS = {"normal": ("mean", "spread"), "quantiles": ("value",), "members": ("value",)}


def _finish(ds: xr.Dataset, form: str, attrs: dict[str, Any]) -> xr.Dataset:
    ds.attrs = {**attrs, "distribution": form}
    return ds


def normal(mean: xr.DataArray, spread: xr.DataArray, **attrs: Any) -> xr.Dataset:
    """Normal distribution from its mean and standard deviation (same shape and units)."""
    spread_attrs = {**mean.attrs, "long_name": f"spread of {mean.attrs.get('long_name', 'field')}"}
    ds = xr.Dataset({"mean": mean, "spread": spread.assign_attrs(spread_attrs)})
    return _finish(ds, "normal", attrs)


def members(value: xr.DataArray, **attrs: Any) -> xr.Dataset:
    """Distribution given by equally likely members (dimension ``number``)."""
    if "number" not in value.dims:
        raise InputError("a distribution of members needs the dimension 'number'")
    return _finish(value.to_dataset(name="value"), "members", attrs)


def quantiles(value: xr.DataArray, **attrs: Any) -> xr.Dataset:
    """Distribution given by quantiles (dimension ``quantile``, ascending levels in (0, 1))."""
    if "quantile" not in value.dims:
        raise InputError("a distribution of quantiles needs the dimension 'quantile'")
    return _finish(value.to_dataset(name="value"), "quantiles", attrs)


def form_of(ds: xr.Dataset) -> str:
    """Name of the form, checked against the variables that are there.

    Raises
    ------
    InputError
        The attribute ``distribution`` is missing or unknown, or a variable is missing.
    """
    form = ds.attrs.get("distribution")
    if form not in FORMS:
        raise InputError(
            f"attribute 'distribution' is {form!r}; a predictive distribution has one of "
            f"{', '.join(FORMS)}"
        )
    missing = [name for name in FORMS[form] if name not in ds]
    if missing:
        raise InputError(f"a {form} distribution lacks the variable(s) {', '.join(missing)}")
    return str(form)


def mean(ds: xr.Dataset) -> xr.DataArray:
    """Mean of the distribution; for quantiles, the mean over the (equally weighted) levels.

    Sums are taken in double precision; a NaN member makes the result NaN. The dtype is kept.
    """
    form = form_of(ds)
    if form == "normal":
        return ds["mean"]
    dim = "quantile" if form == "quantiles" else "number"
    out = ds["value"].mean(dim, skipna=False, dtype=np.float64, keep_attrs=True)
    return out.astype(ds["value"].dtype)


def spread(ds: xr.Dataset) -> xr.DataArray:
    """Standard deviation of the distribution; members give the unbiased one (ddof = 1).

    Precision and NaN as for :func:`mean`.

    Raises
    ------
    InputError
        There is one member only.
    """
    form = form_of(ds)
    if form == "normal":
        return ds["spread"]
    if form == "members" and ds.sizes["number"] < 2:
        raise InputError("one member has no spread; give at least two members")
    dim, ddof = ("quantile", 0) if form == "quantiles" else ("number", 1)
    value = ds["value"].astype(np.float64)
    out = value.std(dim, ddof=ddof, skipna=False, keep_attrs=True)
    return out.astype(ds["value"].dtype)


def quantile(ds: xr.Dataset, levels: Sequence[float]) -> xr.DataArray:
    """Quantiles of the distribution at ``levels``, new leading dimension ``quantile``."""
    form = form_of(ds)
    if form == "normal":
        at = xr.DataArray(
            special.ndtri(np.asarray(levels)), dims="quantile", coords={"quantile": list(levels)}
        )
        out = ds["mean"] + ds["spread"] * at.astype(ds["mean"].dtype)
        return out.transpose("quantile", ...).assign_attrs(ds["mean"].attrs)
    if form == "quantiles":
        return ds["value"].interp(quantile=list(levels)).transpose("quantile", ...)
    return ds["value"].quantile(list(levels), dim="number", skipna=False, keep_attrs=True)


def exceedance(ds: xr.Dataset, threshold: float) -> xr.DataArray:
    """Probability of a value above ``threshold`` (same units as the distribution), 0 to 1.

    Normal: from the distribution function. Members: the fraction of members above. Quantiles:
    linear between the levels given, and not beyond the outermost ones.
    """
    form = form_of(ds)
    out: xr.DataArray
    if form == "normal":
        with np.errstate(divide="ignore"):
            z = (ds["mean"].astype(np.float64) - threshold) / ds["spread"]
        out = xr.apply_ufunc(special.ndtr, z, dask="parallelized", output_dtypes=[z.dtype])
    elif form == "members":
        value = ds["value"]
        out = (value > threshold).mean("number").where(value.notnull().all("number"))
    else:
        levels = ds["quantile"].to_numpy()
        out = xr.apply_ufunc(
            lambda row: 1.0 - np.interp(threshold, row, levels),
            ds["value"],
            input_core_dims=[["quantile"]],
            vectorize=True,
            dask="parallelized",
            output_dtypes=[float],
        )
    long_name = f"probability of more than {threshold:g}"
    return out.assign_attrs({"units": "1", "long_name": long_name})
