"""Cases from files: our own, and those of ExtremeWeatherBench; and back to a file."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from weatherpp.boxes import Box
from weatherpp.data.shipped import find_yaml
from weatherpp.errors import ConfigError
from weatherpp.events.case import Case, CaseField, Moment, TrackRule
from weatherpp.files import write_whole
from weatherpp.strict import fault_line, read_yaml, validate

BENCH_VARIABLES: dict[str, str] = {
    "heat_wave": "t2m",
    "freeze": "t2m",
    "severe_convection": "cape",
    "tropical_cyclone": "msl",
    "atmospheric_river": "tcwv",
}
"""What an event of ExtremeWeatherBench is told by here, by its ``event_type``."""


class Loaded(NamedTuple):
    """Cases of a file, and those it has that cannot be one here, a line each."""

    cases: tuple[Case, ...]
    left_out: tuple[str, ...] = ()


class _Location(BaseModel):
    type: str
    parameters: dict[str, Any]


class _BenchCase(BaseModel):
    """An event of ExtremeWeatherBench; what else its files say of one is not needed here."""

    model_config = ConfigDict(extra="ignore")
    case_id_number: int
    title: str
    start_date: Moment
    end_date: Moment
    location: _Location
    event_type: str


def load_cases(path: Path) -> Loaded:
    """Cases of one YAML file.

    It holds one case, a list of them, or the list of events of ExtremeWeatherBench
    (`case_id_number`, `title`, `start_date`, `end_date`, `location`, `event_type`), which is told
    by the key ``case_id_number``. Times without a zone are in UTC.

    Raises
    ------
    ConfigError
        The file or one of its cases cannot be used; two cases have one name.
    """
    data = read_yaml(path)
    if isinstance(data, Mapping) and isinstance(data.get("cases"), list):
        data = data["cases"]  # as older files of ExtremeWeatherBench have it
    if not isinstance(data, list):
        return Loaded((validate(Case, data, str(path)),))
    if not data:
        raise ConfigError(f"{path}: holds no case")
    bench = isinstance(data[0], Mapping) and "case_id_number" in data[0]
    cases: list[Case] = []
    left_out: list[str] = []
    for place, item in enumerate(data, 1):
        found = _converted(item, f"{path}: case {place}") if bench else None
        if isinstance(found, str):
            left_out.append(found)
        else:
            cases.append(found or validate(Case, item, f"{path}: case {place}"))
    names = [case.name for case in cases]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ConfigError(f"{path}: two cases have the name {', '.join(sorted(twice))}")
    return Loaded(tuple(cases), tuple(left_out))


def _converted(item: Any, where: str) -> Case | str:
    """An event of ExtremeWeatherBench as a case, or a line saying why it cannot be one."""
    event = validate(_BenchCase, item, where)
    slug = re.sub(r"[^a-z0-9]+", "-", event.title.lower()).strip("-")
    name = f"ewb-{event.case_id_number}-{slug}"[:64].rstrip("-")
    line = f"case {event.case_id_number} '{event.title}' is left out: "
    if event.location.type == "shapefile_region":
        return line + "its region is a shapefile, which is not read"
    variable = BENCH_VARIABLES.get(event.event_type)
    if variable is None:
        return line + f"an event of the unknown type '{event.event_type}'"
    try:
        box = _box(event.location)
        track = TrackRule(variable="msl") if event.event_type == "tropical_cyclone" else None
        return Case(
            name=name,
            title=event.title,
            kind=event.event_type.replace("_", " "),
            start=event.start_date,
            end=event.end_date,
            box=box,
            variables=(CaseField(variable=variable),),
            track=track,
            source=f"ExtremeWeatherBench, case {event.case_id_number}",
        )
    except ValidationError as error:
        return line + fault_line(error, item)
    except ValueError as error:
        return line + f"its region cannot be read ({error})"


def _box(location: _Location) -> Box:
    """Box of a bounded region, or of a centre with the lengths of its sides in degrees."""
    parameters = location.parameters
    if location.type == "bounded_region":
        edges = ("latitude_max", "latitude_min", "longitude_min", "longitude_max")
        north, south, west, east = (_number(name, parameters.get(name)) for name in edges)
        return Box(north=north, south=south, west=west, east=east)
    if location.type != "centered_region":
        raise ValueError(f"the type '{location.type}' is not known")
    name = "bounding_box_degrees"
    sides = parameters.get(name)
    both = sides if isinstance(sides, list) else [sides] * 2
    if len(both) != 2:
        raise ValueError(f"{name} has {len(both)} numbers, not two")
    high, wide = (_number(name, side) for side in both)
    if high <= 0 or wide <= 0:
        raise ValueError(f"{name} is {high:g} by {wide:g}")
    latitude, longitude = (
        _number(each, parameters.get(each)) for each in ("latitude", "longitude")
    )
    if abs(latitude) > 90:
        raise ValueError(f"latitude is {latitude:g}")
    west = (longitude - wide / 2) % 360
    return Box(
        north=min(90.0, latitude + high / 2),
        south=max(-90.0, latitude - high / 2),
        west=west if wide < 360 else 0.0,
        east=(west + wide) % 360 if wide < 360 else 360.0,
    )


def _number(name: str, value: Any) -> float:
    """A finite number of a region."""
    if value is None:
        raise ValueError(f"{name} is missing")
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(f"{name} is no number")
    return float(value)


def find_cases(name: str) -> Path:
    """File of cases by its path, or by the name of a shipped one.

    A file ``pipelines/cases/NAME.yaml`` in the working folder goes before a shipped one.

    Raises
    ------
    ConfigError
        There is none.
    """
    return find_yaml(name, "pipelines/cases", "case", "file of cases")


def case_text(cases: Sequence[Case]) -> str:
    """Cases as YAML that :func:`load_cases` reads back."""
    data = [case.model_dump(exclude_defaults=True) for case in cases]
    plain = [
        {key: list(value) if isinstance(value, tuple) else value for key, value in item.items()}
        for item in data
    ]
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=96)


def check_output(path: Path) -> None:
    """Refuse a name that no file of cases can be written under.

    Raises
    ------
    ConfigError
        There is no such folder; the name is that of a folder or a device.
    """
    if not path.parent.is_dir():
        raise ConfigError(f"{path.parent}: no such folder to write to")
    if path.exists() and not path.is_file():
        raise ConfigError(f"{path}: is there and is no file; name a file to write")


def write_cases(cases: Sequence[Case], path: Path) -> None:
    """Write cases as a YAML file, whole or not at all.

    Raises
    ------
    ConfigError
        As :func:`check_output`.
    """
    check_output(path)
    write_whole(path, case_text(cases))
