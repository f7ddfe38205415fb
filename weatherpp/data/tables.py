"""Tables of point forecasts and observations as canonical Datasets with the dimension ``station``.

What the columns are stands in the block ``table`` of the catalog entry, see
:mod:`weatherpp.data.table_layout`. Nothing is averaged, filled or guessed: a place in the table
that no row speaks of is NaN, one that two rows speak of is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from weatherpp.conventions import GAPS, LEAD_UNITS, Kind, annotate, label_text, listed
from weatherpp.data.catalog import CatalogEntry
from weatherpp.data.table_files import Floats, column, names, numbers, read_table, times
from weatherpp.data.table_layout import LONGEST_NAME, LeadColumn, TableLayout
from weatherpp.data.values import convert_units
from weatherpp.errors import ConfigError, InputError
from weatherpp.recipe import parse_step

PLACE = ("latitude", "longitude", "altitude")


class _Stations(NamedTuple):
    """Name of the station of every row, and the places of all stations by name."""

    of_row: NDArray[np.str_]
    places: pd.DataFrame


def read(path: Path, entry: CatalogEntry, kind: Kind) -> list[xr.Dataset]:
    """One file of a source as canonical pieces (here: one).

    Parameters
    ----------
    path
        CSV (also packed with gzip), parquet or SQLite file.
    entry
        A catalog entry with ``driver: table``.
    kind
        ``forecast``: dims (time, step, number, station). ``analysis``: dims (valid_time,
        station), out of the same rows (``table.observation``) or of a table of observations
        (``table.truth``), whose places are NaN: :func:`on_stations` knows them.

    Returns
    -------
    float32 in canonical units. The variable's attributes tell whether members are
    ``exchangeable`` (0 or 1), their names if they have some (``member_names``), the percentiles
    that stand for them if they do (``percentiles``), the ``window`` of sums and extremes, and
    that values may be missing (``gaps``). Stations are sorted by name.

    Raises
    ------
    InputError
        A column is missing, a cell is no number or time, a row stands twice, a station has
        several places, or percentiles are taken for members. The message names file, column
        and row.
    ConfigError
        Static fields are asked for.
    """
    layout, where = entry.table, str(path)
    if layout is None or kind == "static":
        raise ConfigError(f"catalog entry {entry.name}: no {kind} can be read from a table")
    frame = read_table(path, layout.sheet if kind == "forecast" or not layout.truth else None)
    name, given = next(iter(entry.variables.items()))
    if kind == "forecast":
        array, units = _forecast(frame, layout, where), layout.units
    elif layout.truth is not None:
        array, units = _truth(frame, layout, where), layout.truth.units
    else:
        array, units = _observed(frame, layout, where), layout.units
    unit = _unit(frame, units, where) if units is not None else given.units
    array = convert_units(array.assign_attrs(units=unit or ""), name, where)
    if layout.window is not None:
        array.attrs["window"] = layout.window
    if entry.sparse:
        array.attrs["gaps"] = GAPS
    ds = annotate(array.astype("float32").to_dataset(name=name))
    return [ds.assign_coords(valid_time=ds["time"] + ds["step"]) if kind == "forecast" else ds]


def same_stations(pieces: Sequence[xr.Dataset], where: str) -> list[xr.Dataset]:
    """The pieces on all stations that any of them has, NaN where one has none of them.

    Raises
    ------
    InputError
        A station has another place in another piece.
    """
    parts = [piece[list(PLACE)].to_dataframe()[list(PLACE)] for piece in pieces]
    rows = pd.concat(parts).reset_index().drop_duplicates()
    twice = rows["station"].duplicated()
    if twice.any():
        raise InputError(
            f"{where}: station {rows.loc[twice, 'station'].iloc[0]} has another place in another "
            "file; give it two names"
        )
    places = rows.set_index("station").sort_index()
    coords = {name: ("station", places[name].to_numpy()) for name in PLACE}
    every = places.index.to_numpy(dtype=object)
    return [annotate(piece.reindex(station=every).assign_coords(coords)) for piece in pieces]


def on_stations(analysis: xr.Dataset, forecast: xr.Dataset, where: str) -> xr.Dataset:
    """Observations at the stations of a forecast, matched by name, NaN where there are none.

    The places are those of the forecast: what observing networks report of them differs, by
    more than a degree for some, and the forecast was made for the places that it states.

    Raises
    ------
    InputError
        Not one station is in both.
    """
    wanted, there = forecast["station"].to_numpy(), analysis["station"].to_numpy()
    if not np.isin(wanted, there).any():
        raise InputError(
            f"{where}: none of its {there.size} stations is one of the forecast's {wanted.size} "
            f"(there {there[0]}, here {wanted[0]})"
        )
    out = analysis.reindex(station=wanted)
    return out.assign_coords({name: forecast[name] for name in ("station", *PLACE)})


def _placed(array: xr.DataArray, places: pd.DataFrame) -> xr.DataArray:
    return array.assign_coords({name: ("station", places[name].to_numpy()) for name in PLACE})


def _forecast(frame: pd.DataFrame, layout: TableLayout, where: str) -> xr.DataArray:
    initial, valid = _times(frame, layout, where)
    stations = _stations(frame, layout, where)
    axes: dict[str, Any] = {"time": initial, "step": valid - initial, "station": stations.of_row}
    attrs: dict[str, Any] = {"exchangeable": int(layout.exchangeable)}
    if layout.percentiles is not None:
        chosen = layout.percentiles.as_members
        level = numbers(column(frame, layout.percentiles.level, where), where)
        value = column(frame, layout.percentiles.value, where)
        if not chosen:
            raise InputError(
                f"{where}: holds {np.unique(level).size} percentiles, not members; if some are "
                "to be taken for members, list them in table.percentiles.as_members"
            )
        nearest = np.abs(level[:, None] - np.array(chosen)).argmin(axis=1)
        kept = np.isclose(level, np.array(chosen)[nearest], atol=1e-4)
        axes = {"number": nearest + 1, **axes}
        out = _fill(numbers(value, where, layout.missing), axes, kept, layout, where)
        if out.sizes["number"] < len(chosen):
            raise InputError(f"{where}: not all percentiles of table.percentiles.as_members")
        attrs["percentiles"] = ", ".join(f"{value:g}" for value in chosen)
    else:
        columns = _members(frame, layout, where)
        values = [numbers(column(frame, c, where), where, layout.missing) for c in columns.values()]
        every = np.ones(len(frame), dtype=np.bool_)
        out = _fill(np.stack(values, axis=-1), axes, every, layout, where)
        out = out.rename(extra="number").assign_coords(number=list(columns))
        if not isinstance(layout.members, str):
            attrs["member_names"] = ", ".join(columns.values())
    out = _placed(out.transpose("time", "step", "number", "station"), stations.places)
    return out.assign_attrs(attrs)


def _members(frame: pd.DataFrame, layout: TableLayout, where: str) -> dict[int, str]:
    """Columns of the members by number, ascending."""
    if not isinstance(layout.members, str):
        return dict(enumerate(layout.members, start=1))
    pattern = re.compile(layout.members)
    short = [name for name in map(str, frame.columns) if len(name) <= LONGEST_NAME]
    matches = [found for name in short if (found := pattern.fullmatch(name))]
    if not matches:
        raise InputError(
            f"{where}: no column matches '{layout.members}'; there are {listed(frame.columns)}"
        )
    try:
        columns = {int(found[1]): found[0] for found in matches}
    except ValueError:
        raise InputError(f"{where}: the group of '{layout.members}' is not a number") from None
    if len(columns) < len(matches):
        raise InputError(f"{where}: two columns that match '{layout.members}' have one number")
    return dict(sorted(columns.items()))


def _observed(frame: pd.DataFrame, layout: TableLayout, where: str) -> xr.DataArray:
    """Observations that stand in the rows of forecasts, so once for each lead time."""
    if layout.observation is None:
        raise InputError(f"{where}: the entry names no column of observations")
    value = numbers(column(frame, layout.observation, where), where, layout.missing)
    _, valid = _times(frame, layout, where)
    stations = _stations(frame, layout, where)
    rows = pd.DataFrame({"valid_time": valid, "station": stations.of_row, "value": value})
    # the same observation beside each lead time and percentile is no contradiction
    kept = ~rows.duplicated().to_numpy()
    axes = {"valid_time": valid, "station": stations.of_row}
    out = _fill(value, axes, kept, layout, where)
    return _placed(out, stations.places)


def _truth(frame: pd.DataFrame, layout: TableLayout, where: str) -> xr.DataArray:
    truth = layout.truth
    assert truth is not None  # read() looked
    if truth.id is not None:
        station = names(column(frame, truth.id, where), where)
    elif layout.station.name is not None:
        station = np.full(len(frame), layout.station.name)
    else:
        raise InputError(f"{where}: whose are the observations? name a column in table.truth.id")
    valid = times(column(frame, truth.valid_time, where), where, truth.time_format)
    value = numbers(column(frame, truth.value, where), where, layout.missing)
    every = np.ones(len(frame), dtype=np.bool_)
    out = _fill(value, {"valid_time": valid, "station": station}, every, layout, where)
    unknown = np.full(out.sizes["station"], np.nan)
    return out.assign_coords(dict.fromkeys(PLACE, ("station", unknown)))


def _fill(
    values: Floats,
    axes: dict[str, Any],
    kept: NDArray[np.bool_],
    layout: TableLayout,
    where: str,
) -> xr.DataArray:
    """Rows (rows, or rows x extra) sorted into a table over ``axes``, NaN where there is none."""
    at, labels = {}, {}
    for name, labelled in axes.items():
        found, index = np.unique(np.asarray(labelled)[kept], return_inverse=True)
        # text of any length, which Zarr has a specification for
        labels[name], at[name] = (found.astype(object) if found.dtype.kind == "U" else found), index
    shape = tuple(len(found) for found in labels.values())
    slot = np.ravel_multi_index(tuple(at.values()), shape) if shape else np.zeros(0, np.intp)
    twice = pd.Series(slot).duplicated().to_numpy()
    if twice.any() and layout.duplicates == "refuse":
        row = int(twice.argmax())
        first = int((slot == slot[row]).argmax())
        rows = np.flatnonzero(kept) + 1
        text = ", ".join(f"{name} {label_text(labels[name][at[name][row]])}" for name in axes)
        raise InputError(
            f"{where}: rows {rows[first]} and {rows[row]} are both for {text}; remove one, or set "
            "table.duplicates: last"
        )
    extra = values.shape[1:]
    table = np.full((int(np.prod(shape)), *extra), np.nan)
    table[slot] = values[kept]  # of two rows for one slot the later one stays
    dims = [*axes, "extra"] if extra else [*axes]
    return xr.DataArray(table.reshape(*shape, *extra), dims=dims, coords=labels)


def _times(
    frame: pd.DataFrame, layout: TableLayout, where: str
) -> tuple[pd.DatetimeIndex, pd.DatetimeIndex]:
    """Initial and valid time of every row."""
    initial = valid = None
    if layout.run is not None:
        one = times(pd.Series([layout.run], name="run"), f"{where}: table.run", layout.time_format)
        initial = one.repeat(len(frame))
    elif layout.initial_time is not None:
        initial = times(column(frame, layout.initial_time, where), where, layout.time_format)
    if layout.valid_time is not None:
        valid = times(column(frame, layout.valid_time, where), where, layout.time_format)
    lead = _lead(frame, layout.lead, where) if layout.lead is not None else None
    if initial is None:
        assert valid is not None  # the layout has two of the three
        assert lead is not None
        initial = valid - lead
    if valid is None:
        assert lead is not None
        valid = initial + lead
    faults = {"valid time is before initial time": valid < initial}
    if lead is not None:
        faults["valid time is not initial time plus lead time"] = valid - initial != lead
    for text, off in faults.items():
        if off.any():
            raise InputError(f"{where}: row {int(off.argmax()) + 1}: {text}")
    return initial, valid


def _lead(frame: pd.DataFrame, lead: str | LeadColumn, where: str) -> pd.TimedeltaIndex:
    if isinstance(lead, str):
        return pd.TimedeltaIndex([parse_step(lead)]).repeat(len(frame)).as_unit("ns")
    values = column(frame, lead.column, where)
    if values.dtype.kind == "m" and not values.isna().any():
        return pd.TimedeltaIndex(values).as_unit("ns")
    if lead.unit is None:
        raise InputError(f"{where}: column '{lead.column}' holds numbers; say table.lead.unit")
    hours = numbers(values, where)
    if np.isnan(hours).any():
        row = int(np.isnan(hours).argmax())
        raise InputError(f"{where}: column '{lead.column}', row {row + 1} is empty")
    seconds = np.rint(hours * LEAD_UNITS[lead.unit]).astype("timedelta64[s]")
    return pd.TimedeltaIndex(seconds).as_unit("ns")


def _stations(frame: pd.DataFrame, layout: TableLayout, where: str) -> _Stations:
    columns = layout.station
    given = (columns.latitude, columns.longitude, columns.altitude)
    rows = pd.DataFrame(
        {
            name: _coordinate(frame, source, where, layout.missing)
            for name, source in zip(PLACE, given, strict=True)
        }
    )
    _check_places(rows, where)
    spot = rows["latitude"].map(repr) + "," + rows["longitude"].map(repr)
    if columns.name is not None:
        rows["station"] = columns.name
    elif columns.id is not None:
        rows["station"] = names(column(frame, columns.id, where), where)
    else:
        rows["station"] = spot
    rows["longitude"] = rows["longitude"] % 360.0
    places = rows.drop_duplicates()
    several = places["station"].duplicated(keep=False)
    if several.any() and columns.moving == "separate":
        moved = rows["station"].isin(places["station"][several])
        rows["station"] = rows["station"].where(~moved, rows["station"] + "@" + spot)
        places = rows.drop_duplicates()
        several = places["station"].duplicated(keep=False)
    if several.any():
        first = places[several].iloc[0]["station"]
        at = places.index[places["station"] == first][:2] + 1
        raise InputError(
            f"{where}: station {first} has another place in row {at[1]} than in row {at[0]}; set "
            "table.station.moving: separate to count each place as a station"
        )
    return _Stations(
        rows["station"].to_numpy(dtype=np.str_), places.set_index("station").sort_index()
    )


def _coordinate(
    frame: pd.DataFrame, source: float | str | None, where: str, missing: tuple[float, ...]
) -> Floats:
    if isinstance(source, str):
        return numbers(column(frame, source, where), where, missing)
    return np.full(len(frame), np.nan if source is None else source)


def _check_places(rows: pd.DataFrame, where: str) -> None:
    lat, lon = rows["latitude"].to_numpy(), rows["longitude"].to_numpy()
    bad = ~((np.abs(lat) <= 90) & (np.abs(lon) <= 360))
    if bad.any():
        row = int(bad.argmax())
        raise InputError(
            f"{where}: row {row + 1}: latitude {lat[row]:g} and longitude {lon[row]:g} are no place"
        )


def _unit(frame: pd.DataFrame, name: str, where: str) -> str:
    found = sorted({str(value) for value in column(frame, name, where).unique()})
    if len(found) != 1:
        raise InputError(f"{where}: column '{name}' has {len(found)} units: {listed(found)}")
    return found[0]
