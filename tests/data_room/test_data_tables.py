"""Tables of point forecasts: what is read is what stands in the file, and faults are named."""

from __future__ import annotations

import gzip
import sqlite3
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scoringrules
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weatherpp import distribution
from weatherpp.conventions import check
from weatherpp.data import tables
from weatherpp.data.archive import write_archive
from weatherpp.data.catalog import CatalogEntry, load_entry
from weatherpp.data.inspect import inspect
from weatherpp.data.join import join
from weatherpp.data.matching import truth_for
from weatherpp.errors import ConfigError, InputError
from weatherpp.recipe import Target
from weatherpp.strict import validate
from weatherpp.verify import scores

LAYOUT: dict[str, Any] = {
    "valid_time": "valid",
    "lead": "24h",
    "station": {"id": "id", "latitude": "lat", "longitude": "lon", "altitude": "alt"},
    "members": "m([0-9]+)",
    "observation": "obs",
    "missing": [-9999],
}
CSV = """id,lat,lon,alt,valid,m1,m2,m10,obs
03002,60.75,-0.85,15,2020-01-02 06:00,1,2,3,1.5
KCQV ,48.5,242.1,-9999,2020-01-02 06:00,4,5,,4.5
03002,60.75,-0.85,15,2020-01-03T06:00Z,7,8,9,
"""


def entry(unit: str = "degC", sparse: bool = True, **changes: Any) -> CatalogEntry:
    """A catalog entry with :data:`LAYOUT`; a change to None removes a key."""
    table = {key: value for key, value in (LAYOUT | changes).items() if value is not None}
    content = {
        "name": "t",
        "title": "t",
        "driver": "table",
        "files": {"forecast": ["*"]} | ({"analysis": ["*"]} if "truth" in table else {}),
        "variables": {"t2m": {"units": unit}},
        "missing_values": "expected" if sparse else "refuse",
        "licence": "none",
        "citation": "none",
        "table": table,
    }
    return validate(CatalogEntry, content, "t.yaml")


def write(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def one(path: Path, entry: CatalogEntry, kind: Any = "forecast") -> xr.Dataset:
    (ds,) = tables.read(path, entry, kind)
    check(ds, str(path), kind)
    return ds


def test_small_table(tmp_path: Path) -> None:
    path = write(tmp_path, CSV)
    ds = one(path, entry())
    assert ds["t2m"].dims == ("time", "step", "number", "station")
    assert ds["station"].values.tolist() == ["03002", "KCQV"]
    assert ds["number"].values.tolist() == [1, 2, 10]
    assert ds["time"].values[0] == np.datetime64("2020-01-01T06")
    assert ds["valid_time"].values[1, 0] == np.datetime64("2020-01-03T06")
    np.testing.assert_allclose(ds["longitude"], [359.15, 242.1])
    np.testing.assert_array_equal(ds["altitude"], [15, np.nan])
    expected = [[[1, 4], [2, 5], [3, np.nan]], [[7, np.nan], [8, np.nan], [9, np.nan]]]
    np.testing.assert_allclose(ds["t2m"].isel(step=0) - 273.15, expected, atol=1e-4)
    assert ds["t2m"].attrs["exchangeable"] == 1
    assert ds["t2m"].attrs["gaps"] == "expected"
    truth = one(path, entry(), "analysis")
    np.testing.assert_allclose(truth["t2m"] - 273.15, [[1.5, 4.5], [np.nan] * 2], atol=1e-4)
    assert "gaps" not in one(path, entry(sparse=False))["t2m"].attrs


def test_named_members_and_window(tmp_path: Path) -> None:
    changed = entry(members=["m10", "m1"], exchangeable=False, window="12 h")
    field = one(write(tmp_path, CSV), changed)["t2m"]
    assert field.attrs["member_names"] == "m10, m1"
    assert field.attrs["exchangeable"] == 0
    assert field.attrs["window"] == "12 h"
    np.testing.assert_allclose(field[0, 0, :, 0] - 273.15, [3, 1], atol=1e-4)


def test_every_format_gives_the_same(tmp_path: Path) -> None:
    text = CSV.replace("KCQV ", "00100").replace("T06:00Z", " 06:00")
    plain = write(tmp_path, text)
    packed = tmp_path / "t.csv.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    frame = pd.read_csv(plain, dtype={"id": str})
    typed = frame.assign(valid=pd.to_datetime(frame["valid"]))
    typed.to_parquet(tmp_path / "t.parquet")
    with closing(sqlite3.connect(tmp_path / "t.sqlite")) as connection:
        frame.to_sql("FC", connection, index=False)
    expected = one(plain, entry())
    for name in ("t.csv.gz", "t.parquet", "t.sqlite"):
        xr.testing.assert_identical(one(tmp_path / name, entry()), expected)
    assert "FC" in str(inspect(tmp_path / "t.sqlite"))


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    slots=st.sets(
        st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=40
    ),
    seed=st.integers(0, 1000),
)
def test_each_value_lies_where_its_row_says(
    slots: set[tuple[int, int, int]], seed: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.permutation(sorted(slots))  # the order of rows has no say
    frame = pd.DataFrame(rows, columns=["day", "lead", "id"])
    frame["initial"] = 86400 * frame["day"] + 1_600_000_000
    frame = frame.assign(lat=frame["id"] * 10.0, lon=1.5, m1=rng.normal(280, 5, len(frame)))
    path = tmp_path / "t.parquet"
    frame.to_parquet(path)
    layout = entry(
        "K",
        valid_time=None,
        initial_time="initial",
        time_format="epoch",
        lead={"column": "lead", "unit": "h"},
        station={"id": "id", "latitude": "lat", "longitude": "lon"},
        observation=None,
    )
    ds = one(path, layout)
    assert int(ds["t2m"].notnull().sum()) == len(frame)
    for row in frame.itertuples():
        at = {
            "time": pd.Timestamp(row.initial, unit="s"),
            "step": pd.Timedelta(hours=row.lead),
            "station": str(row.id),
        }
        assert float(ds["t2m"].sel(at).item()) == pytest.approx(row.m1, abs=1e-4)


FAULTS: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "no column": ("alt,valid", "height,valid", {}, "no column 'alt'; there are .*height"),
    "no number": ("60.75,-0.85,15,2020-01-02 06:00,1,2", "60.75,-0.85,15,2020-01-02 06:00,1,two",
                  {}, "column 'm2', row 1: 'two' is no number"),
    "infinite": (",7,8,9", ",7,inf,9", {}, "column 'm2', row 3: 'inf' is no number"),
    "no time": ("2020-01-03T06:00Z", "yesterday", {}, "'valid', row 3: 'yesterday' is no time"),
    "twice": ("03T06:00Z", "02 06:00", {},
              "rows 1 and 3 are both for time 2020-01-01 06:00, step 24 h, station 03002"),
    "cut off": (",7,8,9,\n", ",7,8\n", {}, "row 3 has 7 cells, there are 9 columns"),
    "column twice": ("m1,m2", "m1,m1", {}, "two columns are called 'm1'"),
    "moved": ("03002,60.75,-0.85,15,2020-01-03", "03002,60.8,-0.85,15,2020-01-03", {},
              "station 03002 has another place in row 3 than in row 1; .*moving: separate"),
    "no place": ("48.5,", "98.5,", {}, "row 2: latitude 98.5 .* no place"),
    "no station": ("KCQV ", "", {}, "column 'id', row 2 is empty"),
    "unit": ("", "", {"units": "K", "lead": "24h"}, "no column 'K'"),
    "no member": ("", "", {"members": "x([0-9]+)"}, r"no column matches 'x\(\[0-9\]\+\)'"),
    "wrong form": ("", "", {"time_format": "%Y%m%d"}, "row 1: .* is no time of the form %Y%m%d"),
    "lead": ("", "", {"lead": {"column": "alt"}}, "holds numbers; say table.lead.unit"),
    "sheet": ("", "", {"sheet": "FC"}, "CSV has no sheets"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_named(name: str, tmp_path: Path) -> None:
    old, new, changes, message = FAULTS[name]
    path = write(tmp_path, CSV.replace(old, new) if old else CSV)
    with pytest.raises(InputError, match=message) as error:
        tables.read(path, entry(**changes), "forecast")
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


def test_unknown_units_and_numbers_as_times(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="t2m has the unknown units 'furlong'"):
        tables.read(write(tmp_path, CSV), entry("furlong"), "forecast")
    frame = pd.read_csv(write(tmp_path, CSV)).assign(valid=2020010206)
    frame.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"holds numbers; say in table\.time_format"):
        tables.read(tmp_path / "t.parquet", entry(), "forecast")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"", "a table without rows"),
        ("t.csv", b"a;b\n1;2\n", "separated by commas"),
        ("t.csv", b"a,b\n\xff,2\n", "cannot be read"),
        ("t.csv.gz", gzip.compress(CSV.encode())[:-12], "cannot be read"),
        ("t.parquet", b"PAR1 and no more", "not a readable parquet file"),
        ("t.sqlite", b"SQLite format 3\x00 and no more", "not a readable SQLite data base"),
        ("t.txt", b"hello", "not a table"),
    ],
)
def test_damaged_files(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        tables.read(tmp_path / name, entry(), "forecast")


def test_of_two_rows_the_last_if_the_entry_says_so(tmp_path: Path) -> None:
    path = write(tmp_path, CSV.replace("03T06:00Z", "02 06:00"))
    field = one(path, entry(duplicates="last"))["t2m"]
    np.testing.assert_allclose(field.sel(station="03002").squeeze() - 273.15, [7, 8, 9], atol=1e-4)


def test_three_times_must_add_up(tmp_path: Path) -> None:
    text = CSV.replace("valid,", "valid,start,").replace(":00,", ":00,2020-01-01 06:00,")
    path = write(tmp_path, text.replace("00Z,", "00Z,2020-01-01 06:00,"))
    with pytest.raises(InputError, match="row 3: valid time is not initial time plus lead time"):
        tables.read(path, entry(initial_time="start"), "forecast")
    later = path.read_text().replace("2020-01-01 06:00", "2020-01-05 06:00")
    with pytest.raises(InputError, match="row 1: valid time is before initial time"):
        tables.read(write(tmp_path, later, "l.csv"), entry(initial_time="start"), "forecast")
    ds = one(path, entry(initial_time="start", lead=None))
    assert (ds["step"].values / np.timedelta64(1, "h")).tolist() == [24, 48]


def test_a_moving_station_is_one_for_each_place(tmp_path: Path) -> None:
    path = write(tmp_path, CSV.replace("03002,60.75", "03002,60.8", 1))
    layout = entry(station=LAYOUT["station"] | {"moving": "separate"})
    stations = ["03002@60.75,-0.85", "03002@60.8,-0.85", "KCQV"]
    assert one(path, layout)["station"].values.tolist() == stations
    assert one(path, layout, "analysis")["station"].values.tolist() == stations
    nameless = entry(station={"latitude": "lat", "longitude": "lon"})
    names = one(path, nameless)["station"].values.tolist()
    assert names == ["48.5,242.1", "60.75,-0.85", "60.8,-0.85"]


def percentiles(levels: list[float]) -> str:
    rows = [f"a,50,8,2020-01-02,{level},{280 + level / 10}" for level in levels]
    return "\n".join(["id,lat,lon,valid,level,value", *rows]) + "\n"


def test_percentiles_are_members_only_if_the_entry_says_which(tmp_path: Path) -> None:
    path = write(tmp_path, percentiles([5, 25, 50, 75, 95]))
    base: dict[str, Any] = {
        "station": {"id": "id", "latitude": "lat", "longitude": "lon"},
        "members": None,
        "observation": None,
    }
    columns: dict[str, Any] = {"level": "level", "value": "value"}
    with pytest.raises(InputError, match="holds 5 percentiles, not members"):
        tables.read(path, entry("K", **base, percentiles=columns), "forecast")
    assert any("no ensemble members" in line for line in inspect(
        write(tmp_path, percentiles([5]).replace("level", "percentile"), "p.csv")
    ).missing)  # fmt: skip
    chosen = entry("K", **base, percentiles=columns | {"as_members": [25, 50, 75]})
    field = one(path, chosen)["t2m"]
    assert field.attrs["percentiles"] == "25, 50, 75"
    np.testing.assert_allclose(field.squeeze(), [282.5, 285, 287.5])
    with pytest.raises(ConfigError, match=r"as many members only at 33\.3333, 66\.6667"):
        entry("K", **base, percentiles=columns | {"as_members": [25, 75]})
    lacking = write(tmp_path, percentiles([25, 75]))
    with pytest.raises(InputError, match="not all percentiles"):
        tables.read(lacking, chosen, "forecast")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lead": None}, "needs two of initial_time, valid_time and lead"),
        ({"lead": "soon"}, "'soon' is not a lead time"),
        ({"members": "m[0-9]+"}, "needs one group"),
        ({"members": ["a", "a"]}, "named twice"),
        ({"members": None}, "either members or percentiles"),
        ({"truth": {"valid_time": "t", "value": "v"}}, "exclude each other"),
        ({"station": {"latitude": "a", "longitude": "b", "name": "x"}}, "name goes with"),
        ({"colour": 1}, "unknown key 'table.colour'"),
    ],
)
def test_faults_of_the_entry(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        entry(**changes)


def test_tables_of_different_stations_are_joined_and_matched(tmp_path: Path) -> None:
    first = one(write(tmp_path, CSV), entry())
    other = CSV.replace("2020-01", "2020-02").replace("KCQV ,48.5", "10637,50")
    second = one(write(tmp_path, other, "other.csv"), entry())
    both = join(tables.same_stations([first, second], "here"), "here", "forecast", sparse=True)
    check(both, "here")
    assert both["station"].values.tolist() == ["03002", "10637", "KCQV"]
    assert both.sizes["time"] == 4
    assert int(both["t2m"].notnull().sum()) == int(first["t2m"].count() + second["t2m"].count())
    elsewhere = one(write(tmp_path, other.replace("60.75", "61"), "else.csv"), entry())
    with pytest.raises(InputError, match="station 03002 has another place in another file"):
        tables.same_stations([first, elsewhere], "here")
    truth = tables.on_stations(one(write(tmp_path, CSV), entry(), "analysis"), both, "here")
    assert truth["t2m"].sel(station="10637").isnull().all()
    with pytest.raises(InputError, match="none of its 1 stations"):
        tables.on_stations(truth.isel(station=[2]), both.isel(station=[0]), "here")


def test_an_archive_of_stations(tmp_path: Path) -> None:
    path = write(tmp_path, CSV)
    forecast, truth = one(path, entry()), one(path, entry(), "analysis")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # names of a type that Zarr has no specification for
        archive = write_archive(tmp_path / "a", forecast, truth)
    xr.testing.assert_identical(archive.forecast.load(), forecast)
    assert archive.analysis is not None
    xr.testing.assert_identical(archive.analysis.load(), truth)


def test_harp_forecasts_and_reports(data_dir: Path) -> None:
    folder = data_dir / "meps_stations"
    known = load_entry("meps-stations")
    path = folder / "FCTABLE_T2m_201902_00.sqlite"
    forecast = one(path, known)
    assert dict(forecast.sizes) == {"time": 1, "step": 5, "number": 10, "station": 1149}
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        rows = pd.read_sql_query("SELECT * FROM FC", connection)
    members = [f"MEPS_prod_mbr{number:03d}" for number in range(10)]
    row = rows.iloc[77]
    at = {"station": str(row["SID"]), "step": pd.Timedelta(hours=row["leadtime"])}
    found = forecast.isel(time=0).sel(at)
    np.testing.assert_allclose(found["t2m"], row[members].astype(float), rtol=1e-6)
    assert float(found["altitude"]) == row["model_elevation"]
    assert float(found["latitude"]) == row["lat"]
    (reports,) = tables.read(folder / "synop_T2m.csv.gz", known, "analysis")
    assert reports["latitude"].isnull().all()
    truth = truth_for(
        tables.on_stations(reports, forecast, "reports"),
        Target(variable="t2m", step="12h"),
        pd.DatetimeIndex(forecast["time"].values),
        like=forecast,
    )
    synop = pd.read_csv(folder / "synop_T2m.csv.gz", parse_dates=["valid_time"])
    late = synop[synop["valid_time"] == "2019-02-17 12:00"]
    merged = rows[rows["leadtime"] == 12].merge(late, on="SID")
    assert int(truth.count()) == len(merged) > 700
    error = forecast["t2m"].sel(step=pd.Timedelta("12h")).mean("number") - truth
    expected = (merged[members].mean(axis=1) - merged["T2m"]).mean()
    assert float(error.mean()) == pytest.approx(expected, abs=1e-5)


# entry: (lead, columns of members, observation, raw CRPS and that of 50 draws of climatology)
KNOWN: dict[str, tuple[str, str, str, float, float]] = {
    "rain-innsbruck": ("192h", r"rainfc\.\d+", "rain", 6.98, 5.22),
    "temp-innsbruck": ("30h", r"tempfc\.\d+", "temp", 8.55, 3.99),
    "rain-frankfurt": ("30h", r"P\d+", "obs", 0.915, 1.45),
    "srft": ("48h", "CMCG|ETA|GASP|GFS|JMA|NGPS|TCWB|UKMO", "observation", 2.17, 3.23),
}


@pytest.mark.parametrize("name", KNOWN)
def test_raw_score_is_that_of_the_rows(name: str, extra_data: Path) -> None:
    step, pattern, observation, raw, climate = KNOWN[name]
    known = load_entry(name)
    (path,) = known.paths("forecast")
    assert known.paths("analysis") == [path]
    forecast = one(path, known)
    variable = next(iter(known.variables))
    target = Target(variable=variable, step=step)
    truth = truth_for(
        tables.on_stations(one(path, known, "analysis"), forecast, name),
        target,
        pd.DatetimeIndex(forecast["time"].values),
        like=forecast,
    )
    field = forecast[variable].isel(step=0, drop=True)
    scale = 1000 if variable == "tp" else 1  # metres of water to millimetres
    found = scores.crps(distribution.members(field), truth.drop_vars("step", errors="ignore"),
                        "plain")  # fmt: skip
    rows = pd.read_csv(path)
    members = rows[[column for column in rows if pd.Series([column]).str.fullmatch(pattern)[0]]]
    expected = scoringrules.crps_ensemble(
        rows[observation].to_numpy(), members.to_numpy(), estimator="nrg"
    )
    assert int(found.count()) == len(rows)
    assert scale * float(found.mean()) == pytest.approx(expected.mean(), rel=1e-5)
    assert expected.mean() == pytest.approx(raw, abs=0.006)
    there = truth.values[np.isfinite(truth.values)]
    draws = np.random.default_rng(1).choice(there, (50, 1))
    flat = xr.DataArray(np.repeat(draws, there.size, axis=1), dims=("number", "case"))
    drawn = scores.crps(distribution.members(flat), xr.DataArray(there, dims="case"), "plain")
    assert scale * float(drawn.mean()) == pytest.approx(climate, rel=0.1)


def test_named_models_and_a_grid_without_truth(extra_data: Path) -> None:
    known = load_entry("srft-grid")
    (path,) = known.paths("forecast")
    assert known.paths("analysis") == []
    ds = one(path, known)
    assert ds.sizes["station"] == 8188
    assert ds["valid_time"].values[0, 0] == np.datetime64("2004-01-31")
    assert ds["t2m"].attrs["exchangeable"] == 0
    assert ds["t2m"].attrs["member_names"].startswith("CMCG, ETA")
    assert float(ds["t2m"].sel(number=8).mean()) == pytest.approx(
        pd.read_csv(path)["UKMO"].mean(), abs=1e-3
    )


def test_percentiles_of_improver(extra_data: Path) -> None:
    known = load_entry("improver-percentiles")
    (path,) = known.paths("forecast")
    ds = one(path, known)
    assert ds["t2m"].attrs["percentiles"] == "10, 20, 30, 40, 50, 60, 70, 80, 90"
    rows = pd.read_parquet(path)
    assert rows.duplicated(
        ["forecast_reference_time", "forecast_period", "station_id", "percentile"]
    ).any()
    last = rows[(rows["percentile"] == 50) & (rows["station_id"] == "03002")].drop_duplicates(
        ["forecast_reference_time", "forecast_period"], keep="last"
    )
    median = ds["t2m"].sel(number=5, station="03002")
    assert int(median.count()) == len(last)
    assert float(median.mean()) == pytest.approx(last["forecast"].astype(float).mean(), abs=1e-3)
    (path,) = known.paths("analysis")
    (reports,) = tables.read(path, known, "analysis")
    matched = tables.on_stations(reports, ds, "reports")
    assert int(matched["t2m"].count()) == 3600


def test_inspect_tells_the_columns(data_dir: Path, tmp_path: Path) -> None:
    found = str(inspect(data_dir / "meps_stations" / "FCTABLE_T2m_201902_00.sqlite"))
    for piece in (
        "SQLite table FC, 5745 rows, 20 columns",
        "SID: numbers 1001 to 99090, 1149 different",
        "2019-02-17 00:00 to 2019-02-17 12:00 if they are seconds since 1970",
        "MEPS_prod_mbr000 to MEPS_prod_mbr009 (10 columns)",
        "write a catalog entry with 'driver: table'",
    ):
        assert piece in found
    small = str(inspect(write(tmp_path, CSV.replace("2020-01-03T06:00Z", "2020-01-03 06:00"))))
    assert "CSV table, 3 rows, 9 columns" in small
    assert "valid: text 2020-01-02 06:00 to 2020-01-03 06:00, 2 different" in small
    assert "obs: numbers 1.5 to 4.5, 2 different, 1 missing" in small
