"""Values of any source in canonical units, with what the file declares missing as NaN."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import xarray as xr

from weatherpp.conventions import ACCUMULATED, RATES, UNITS, VARIABLES
from weatherpp.data.amounts import period_of
from weatherpp.errors import InputError

LIMITS = ("valid_min", "valid_max", "valid_range")


def masked(da: xr.DataArray, where: str) -> xr.DataArray:
    """Values that the attributes of a netCDF variable declare missing, as NaN; lazy.

    xarray has applied ``_FillValue`` and ``missing_value`` where they have the type of the
    stored values. It passes over, without a word, those written as text or as a float64 that a
    float32 cannot equal (-999.9), and ``valid_range``, ``valid_min`` and ``valid_max``. Limits
    of the stored type are those of packed values, others those of unpacked ones (NetCDF Users'
    Guide, appendix A).

    Raises
    ------
    InputError
        A fill value is no number.
    """
    if da.dtype.kind in "SUO":
        raise InputError(f"{where}: {da.name} holds text, not numbers; choose another variable")
    stored = np.dtype(da.encoding.get("dtype", da.dtype))
    if da.dtype.kind not in "iuf" or stored.kind not in "iuf":
        return da
    scale = float(da.encoding.get("scale_factor", 1.0))
    offset = float(da.encoding.get("add_offset", 0.0))
    packed = "scale_factor" in da.encoding or "add_offset" in da.encoding
    slack = 0.5 * abs(scale) if packed else 0.0  # unpacked values carry rounding
    there = None
    for value in _fill_values(da, stored, where):
        fill = np.asarray(value * scale + offset if packed else value)
        this = abs(da - float(fill)) > slack if packed else da != fill.astype(da.dtype)
        there = this if there is None else there & this
    for side, (limit, is_packed) in _limits(da, stored, packed).items():
        bound = limit * scale + offset if is_packed else limit
        # a negative scale turns the packed range over
        below = (side == "min") != (is_packed and scale < 0)
        this = da >= bound - slack if below else da <= bound + slack
        there = this if there is None else there & this
    if there is None:
        return da
    encoding = {k: v for k, v in da.encoding.items() if k not in ("missing_value", "_FillValue")}
    out = da.where(there)
    out.attrs = {k: v for k, v in da.attrs.items() if k not in LIMITS}
    out.encoding = encoding
    return out


def _fill_values(da: xr.DataArray, stored: np.dtype[np.generic], where: str) -> list[float]:
    """Those that xarray could not compare, as the file has the stored values."""
    found: list[float] = []
    for key in ("_FillValue", "missing_value"):
        for value in np.atleast_1d(da.encoding.get(key, da.attrs.get(key, []))):
            try:
                number = float(value)
            except ValueError:
                raise InputError(
                    f"{where}: {da.name} has the {key} '{value}', which is no number; mend the file"
                ) from None
            if np.isnan(number):
                continue
            if stored.kind in "iu":
                info = np.iinfo(stored.name)
                if number.is_integer() and info.min <= number <= info.max:
                    found += [number] if isinstance(value, str) else []
            elif isinstance(value, str) or float(stored.type(number)) != number:
                found.append(float(stored.type(number)))
    return found


def _limits(
    da: xr.DataArray, stored: np.dtype[np.generic], packed: bool
) -> dict[str, tuple[float, bool]]:
    """Smallest and largest valid value, each with whether it is a packed one."""
    out: dict[str, tuple[float, bool]] = {}
    for key, sides in zip(LIMITS, (("min",), ("max",), ("min", "max")), strict=True):
        values: npt.NDArray[np.generic] = np.atleast_1d(da.attrs.get(key, []))
        if values.size != len(sides) or values.dtype.kind not in "iuf":
            continue
        for side, value in zip(sides, values, strict=True):
            out[side] = (float(value), packed and values.dtype == stored)
    return out


def convert_units(da: xr.DataArray, name: str, where: str) -> xr.DataArray:
    """Values of the known variable ``name`` in its canonical unit.

    Rates of what is canonically an amount are multiplied by the attribute ``period``, the time
    that each value holds for, or the length of its time bounds.

    Raises
    ------
    InputError
        The attribute ``units`` is missing or not in the table, or a rate has no period.
    """
    wanted = VARIABLES[name].units
    found = str(da.attrs.get("units", "")).replace("**", "").replace("^", "").strip()
    if found in (wanted, wanted.replace(" ", ".")):
        return da.assign_attrs(units=wanted)
    if name in ACCUMULATED and found in RATES:
        period = period_of(da)
        if period is None:
            raise InputError(
                f"{where}: {name} is a rate ({found}); state the time that each value holds for "
                f"in the catalog entry under variables.{name}.period, for example 24h"
            )
        return _scaled(da, RATES[found] * period.total_seconds()).assign_attrs(units=wanted)
    if found not in UNITS.get(wanted, {}):
        state = f"has the unknown units '{found}'" if found else "has no units"
        raise InputError(
            f"{where}: {name} {state}; state them in the catalog entry under "
            f"variables.{name}.units (known: {', '.join([wanted, *UNITS.get(wanted, {})])})"
        )
    factor, offset = UNITS[wanted][found]
    return _scaled(da, factor, offset).assign_attrs(units=wanted)


def _scaled(da: xr.DataArray, factor: float, offset: float = 0.0) -> xr.DataArray:
    if (factor, offset) == (1, 0):
        return da
    dtype = da.dtype if da.dtype.kind == "f" else np.dtype("float64")
    # float64 in between: 273.15 added in single precision loses half a millikelvin
    return (da.astype("float64") * factor + offset).astype(dtype).assign_attrs(da.attrs)
