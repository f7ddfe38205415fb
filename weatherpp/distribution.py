"""The predictive distribution: what every method gives and everything behind it takes.

A predictive distribution is a Dataset for *one* target field. Its attribute ``distribution``
tells the form:

a family of :data:`weatherpp.families.FAMILIES`
    its parameters as variables, for ``normal`` ``mean`` and ``spread`` (the standard deviation);
``quantiles``
    variable ``value`` with the dimension ``quantile`` (levels in (0, 1), ascending);
``members``
    variable ``value`` with the dimension ``number``.

All carry ``units`` on their variables, and the Dataset the attributes ``variable`` (short name)
and ``target`` (for example ``z500``); families but the normal also ``units`` and ``long_name`` of
the field, as these are not those of every parameter. The remaining dimensions are those of the
forecast field: ``time`` and the grid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from weatherpp.errors import InputError
from weatherpp.families import FAMILIES

FORMS: dict[str, tuple[str, ...]] = {
    **{name: family.parameters for name, family in FAMILIES.items()},
    "quantiles": ("value",),
    "members": ("value",),
}
ENSEMBLE_DIM = {"members": "number", "quantiles": "quantile"}


def _finish(ds: xr.Dataset, form: str, attrs: dict[str, Any]) -> xr.Dataset:
    ds.attrs = {**attrs, "distribution": form}
    return ds


def normal(mean: xr.DataArray, spread: xr.DataArray, **attrs: Any) -> xr.Dataset:
    """Normal distribution from its mean and standard deviation (same shape and units)."""
    spread_attrs = {**mean.attrs, "long_name": f"spread of {mean.attrs.get('long_name', 'field')}"}
    ds = xr.Dataset({"mean": mean, "spread": spread.assign_attrs(spread_attrs)})
    return _finish(ds, "normal", attrs)


def parametric(
    family: str, parameters: Mapping[str, xr.DataArray], like: xr.DataArray, **attrs: Any
) -> xr.Dataset:
    """Distribution of a named family from its parameters.

    Parameters
    ----------
    family
        Key of :data:`weatherpp.families.FAMILIES`.
    parameters
        By name, (time, grid...).
    like
        A field of the variable that is distributed: its dtype and attributes are taken on.
    """
    if family == "normal":
        mean, spread = (parameters[name].astype(like.dtype) for name in ("mean", "spread"))
        return normal(mean.assign_attrs(like.attrs), spread, **attrs)
    units, long_name = like.attrs.get("units", "1"), like.attrs.get("long_name", "field")
    ds = xr.Dataset()
    for name, power in zip(FAMILIES[family].parameters, FAMILIES[family].powers, strict=True):
        own = {"units": _power(units, power), "long_name": f"{name} of {long_name}"}
        ds[name] = parameters[name].astype(like.dtype).assign_attrs({**like.attrs, **own})
        ds[name].attrs.pop("standard_name", None)
    return _finish(ds, family, {**attrs, "units": units, "long_name": long_name})


def _power(units: str, power: float) -> str:
    if units == "1" or power == 0:
        return "1"
    return units if power == 1 else f"({units}){power:g}"


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


def pattern(ds: xr.Dataset) -> xr.DataArray:
    """A field with the dimensions and coordinates of what is distributed; values mean nothing."""
    form = form_of(ds)
    first = ds[FORMS[form][0]]
    return first if form in FAMILIES else first.isel({ENSEMBLE_DIM[form]: 0}, drop=True)


def of_family(ds: xr.Dataset, function: Callable[..., Any], *first: xr.DataArray) -> xr.DataArray:
    """``function(*first, *parameters)`` of a named family's parameters, float64, lazy if they are.

    The attributes are those of the field that is distributed.
    """
    parameters = [ds[name] for name in FORMS[form_of(ds)]]
    out: xr.DataArray = xr.apply_ufunc(
        function,
        *first,
        *(parameter.astype(np.float64) for parameter in parameters),
        join="exact",
        dask="parallelized",
        output_dtypes=[np.float64],
    )
    field = {key: ds.attrs[key] for key in ("units", "long_name") if key in ds.attrs}
    return out.assign_attrs({**parameters[0].attrs, **field})


def mean(ds: xr.Dataset) -> xr.DataArray:
    """Mean of the distribution; for quantiles, the mean over the (equally weighted) levels.

    Sums are taken in double precision; a NaN member makes the result NaN. The dtype is kept.
    """
    form = form_of(ds)
    if form == "normal":
        return ds["mean"]
    dtype = ds[FORMS[form][0]].dtype
    if form in FAMILIES:
        return of_family(ds, FAMILIES[form].mean).astype(dtype)
    out = ds["value"].mean(ENSEMBLE_DIM[form], skipna=False, dtype=np.float64, keep_attrs=True)
    return out.astype(dtype)


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
    dtype = ds[FORMS[form][0]].dtype
    if form in FAMILIES:
        return of_family(ds, FAMILIES[form].sd).astype(dtype)
    if form == "members" and ds.sizes["number"] < 2:
        raise InputError("one member has no spread; give at least two members")
    ddof = 1 if form == "members" else 0
    value = ds["value"].astype(np.float64)
    out = value.std(ENSEMBLE_DIM[form], ddof=ddof, skipna=False, keep_attrs=True)
    return out.astype(dtype)


def quantile(ds: xr.Dataset, levels: Sequence[float]) -> xr.DataArray:
    """Quantiles of the distribution at ``levels``, new leading dimension ``quantile``."""
    form = form_of(ds)
    if form in FAMILIES:
        at = xr.DataArray(list(levels), dims="quantile", coords={"quantile": list(levels)})
        out = of_family(ds, FAMILIES[form].ppf, at).astype(ds[FORMS[form][0]].dtype)
        return out.transpose("quantile", ...)
    if form == "quantiles":
        return ds["value"].interp(quantile=list(levels)).transpose("quantile", ...)
    return ds["value"].quantile(list(levels), dim="number", skipna=False, keep_attrs=True)


def exceedance(ds: xr.Dataset, threshold: float) -> xr.DataArray:
    """Probability of a value above ``threshold`` (same units as the distribution), 0 to 1.

    Families: from the distribution function. Members: the fraction of members above. Quantiles:
    linear between the levels given, and not beyond the outermost ones.
    """
    form = form_of(ds)
    out: xr.DataArray
    if form in FAMILIES:
        out = 1.0 - of_family(ds, FAMILIES[form].cdf, xr.DataArray(float(threshold)))
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
