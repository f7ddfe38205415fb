"""Names, units, times and numbers as a reader wants to see them."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
DIMENSIONLESS = {"", "1", "dimensionless", "none"}
# Estimators of the CRPS that members have; any other is a form's own.
OF_MEMBERS = ("plain", "fair", "gaussian")
SCORE_NAMES = {
    "crps": "CRPS",
    "rmse": "RMSE",
    "mae": "MAE",
    "bias": "Mean bias",
    "local_bias": "Local bias",
    "spread_rmse": "RMSE of the spread",
    "spread_skill": "Spread / error",
}


def units_text(units: str) -> str:
    """Units with real exponents: ``m2 s-2`` and ``m**2 s**-2`` become ``m² s⁻²``.

    A line does not break within them.
    """
    text = str(units).strip()
    if text in DIMENSIONLESS or text == "nan":
        return ""
    # an exponent follows a unit's letters; a bare number such as that in '10 m' is none
    text = re.sub(r"(?<=[A-Za-z])(?:\*\*|\^)?(-?\d+)", lambda m: m[1].translate(SUPERSCRIPT), text)
    return text.replace(" ", "\u00a0")


def with_units(name: str, units: str) -> str:
    """``name (units)``, or the name alone."""
    text = units_text(units)
    return f"{name} ({text})" if text else name


def score_name(score: str) -> str:
    """Name of a score as a reader knows it."""
    return SCORE_NAMES.get(score, score.replace("_", " "))


def estimator_text(estimator: Any) -> str:
    """An estimator in brackets, if it is one of several that members can be scored with.

    A distribution of another form has its own closed form, which needs no mention.
    """
    return f" ({estimator})" if estimator in OF_MEMBERS else ""


def sentence_case(text: str) -> str:
    """Text with a capital first letter, the rest as it is."""
    return text[:1].upper() + text[1:]


def plain_name(field: xr.DataArray) -> str:
    """Long name and pressure level of a field, to stand within a sentence."""
    name = str(field.attrs.get("long_name") or field.name or "field")
    level = _scalar(field, "level")
    level = field.attrs.get("level") if level is None else level
    return name if level is None else f"{name} at {float(level):g} hPa"


def field_name(field: xr.DataArray) -> str:
    """Long name and pressure level of a field, to stand alone."""
    return sentence_case(plain_name(field))


def spread_name(field: xr.DataArray) -> str:
    """Name of a field's spread, whether or not the field is called a spread already."""
    name = plain_name(field)
    return name if name.lower().startswith("spread of") else f"spread of {name}"


def window_text(field: xr.DataArray) -> str:
    """What time an amount or an extreme holds for: ``in the 6 hours before``.

    Empty for values of one moment, and where the long name says it.
    """
    window = field.attrs.get("window")
    if "before" in str(field.attrs.get("long_name", "")):
        return ""
    if window is not None:
        hours = pd.Timedelta(str(window)).total_seconds() / 3600
        return "in the hour before" if hours == 1 else f"in the {hours:g} hours before"
    since_start = field.attrs.get("accumulation") == "since_start"
    return "since the start of the forecast" if since_start else ""


def origin_text(field: xr.DataArray) -> str:
    """A mark for fields of an embedded atmosphere, told from the attribute ``source``.

    It is the attribute of the archive; values of real data give an empty text.
    """
    source = str(field.attrs.get("source", ""))
    made_here = source.startswith(("weatherpp.twin", "weatherpp.speedy"))
    return "embedded atmosphere, synthetic" if made_here else ""


def headline(field: xr.DataArray, name: str = "") -> str:
    """Title of a figure of a field: name, level, window, and a mark if it is synthetic."""
    title = " ".join(filter(None, (name or field_name(field), window_text(field))))
    origin = origin_text(field)
    return f"{title} [{origin}]" if origin else title


def moment(value: Any) -> str:
    """A time in words, UTC: ``Tuesday 3 March 2020, 12:00 UTC``."""
    time = pd.Timestamp(value)
    return f"{time:%A} {time.day} {time:%B %Y, %H:%M} UTC"


def lead_text(hours: Any) -> str:
    """A lead time in hours: ``48 h``."""
    return f"{float(hours):g} h"


def members_text(members: Any) -> str:
    """Number of members, or nothing for a method that sees none."""
    return "" if pd.isna(members) or members == "" or int(members) == 0 else str(int(members))


def time_text(field: xr.DataArray) -> str:
    """When a field is valid, and from which start, as far as its coordinates say."""
    valid, lead = _times(field)
    if valid is None or pd.isna(valid):
        return ""
    text = f"Valid {moment(valid)}"
    if lead is not None:
        text += f" ({lead_text(lead)} forecast started {moment(_scalar(field, 'time'))})"
    return text


def short_time(field: xr.DataArray) -> str:
    """Valid and lead time of one panel among others: ``Tue 3 Mar 2020, 12:00 UTC, 48 h``."""
    valid, lead = _times(field)
    if valid is None or pd.isna(valid):
        return ""
    time = pd.Timestamp(valid)
    text = f"{time:%a} {time.day} {time:%b %Y, %H:%M} UTC"
    return text if lead is None else f"{text}, {lead_text(lead)}"


def place_text(field: xr.DataArray) -> str:
    """Where a series is from: its station, or its latitude and longitude."""
    station = _scalar(field, "station")
    lat, lon = (_scalar(field, name) for name in ("latitude", "longitude"))
    parts = [] if station is None else [f"station {station}"]
    if lat is not None and lon is not None:
        east = (float(lon) + 180) % 360 - 180
        parts.append(
            f"{abs(float(lat)):.4g}° {'S' if lat < 0 else 'N'}, "
            f"{abs(east):.4g}° {'W' if east < 0 else 'E'}"
        )
    return ", ".join(parts)


def _times(field: xr.DataArray) -> tuple[Any, float | None]:
    """Valid time, and the lead time in hours; None for what is not known."""
    time, step, valid = (_scalar(field, name) for name in ("time", "step", "valid_time"))
    if valid is None and time is not None:
        valid = time if step is None else np.datetime64(time) + np.timedelta64(step)
    if time is None or step is None:
        return valid, None
    return valid, pd.Timedelta(step).total_seconds() / 3600


def _scalar(field: xr.DataArray, name: str) -> Any:
    coord = field.coords.get(name)
    return None if coord is None or coord.size != 1 else coord.values.reshape(())[()]


def number(value: Any, digits: int = 3, decimals: int | None = None) -> str:
    """A number without exponent where sensible; – if missing.

    To ``digits`` significant digits, or to ``decimals`` so that a column's numbers line up.
    """
    if value is None or not math.isfinite(float(value)):
        return "–"
    value = float(value)
    size = math.floor(math.log10(abs(value))) if value else 0
    if value and decimals is None and (size < -4 or size > 6):
        return f"{value:.{digits - 1}e}".replace("-", "−")
    if value == 0 and decimals is None:
        return "0"
    places = max(0, digits - 1 - size) if decimals is None else decimals
    text = f"{value:,.{places}f}"
    # a tiny negative number must not read as -0.0
    text = text.lstrip("-") if float(text.replace(",", "")) == 0 else text
    return text.replace("-", "−").replace(",", "\u202f")


def decimals_for(values: Any, digits: int = 3) -> int | None:
    """Decimals that give a typical one of several numbers ``digits`` significant digits.

    None if the numbers need an exponent.
    """
    sizes = [abs(float(v)) for v in values if math.isfinite(float(v)) and float(v) != 0]
    if not sizes:
        return None
    size = math.floor(math.log10(sorted(sizes)[len(sizes) // 2]))
    return None if size < -4 or size > 6 else max(0, digits - 1 - size)


def percent(fraction: Any, digits: int = 1) -> str:
    """A fraction in per cent, without the sign ``%``; – if missing."""
    if fraction is None or not math.isfinite(float(fraction)):
        return "–"
    text = f"{100 * float(fraction):.{digits}f}"
    # a tiny negative number must not read as -0.0
    return (text.lstrip("-") if float(text) == 0 else text).replace("-", "−")
