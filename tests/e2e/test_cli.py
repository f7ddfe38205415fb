"""The real command line: the main job, resuming, kill -9, and one clear line for each fault."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from copy import deepcopy
from pathlib import Path

import pandas as pd
import pytest
import xarray as xr
from jobs import ENTRY, FIVE, RECIPE, Command, write_yaml

from weatherpp.data.archive import Archive
from weatherpp.verify.weights import grid_weights

COMMANDS = [
    "ingest",
    "fit",
    "postprocess",
    "verify",
    "report",
    "run",
    "demo",
    "tune",
    "claims",
    "evaluate",
    "compare",
    "inspect",
    "apply",
    "nightly",
    "status",
    "history",
    "models add",
    "models use",
    "models list",
]


def tasks(result: subprocess.CompletedProcess[str], state: str) -> list[str]:
    return [
        line.split()[1] for line in result.stderr.splitlines() if line.strip().startswith(state)
    ]


def assert_one_line(result: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert result.returncode == code, result.stderr
    lines = [line for line in result.stderr.splitlines() if line.startswith("weatherpp:")]
    assert len(lines) == 1, result.stderr
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in lines[0]


@pytest.mark.parametrize("command", [*COMMANDS, "catalog list", "catalog show", "catalog check"])
def test_help_shows_an_example(weatherpp: Command, tmp_path: Path, command: str) -> None:
    result = weatherpp(*command.split(), "--help", cwd=tmp_path)
    assert result.returncode == 0
    assert f"Example: weatherpp {command}" in result.stdout


def test_the_package_runs_as_the_command(tmp_path: Path) -> None:
    call = [sys.executable, "-m", "weatherpp", "catalog", "show", "no-such"]
    result = subprocess.run(call, capture_output=True, text=True, cwd=tmp_path)
    assert_one_line(result, 2, "no-such")


def test_help_imports_neither_torch_nor_matplotlib() -> None:
    code = (
        "import sys; sys.argv = ['weatherpp', '--help']\n"
        "import atexit, weatherpp.cli\n"
        "heavy = {'torch', 'matplotlib', 'xarray', 'pandas', 'lightning'}\n"
        "atexit.register(lambda: print('HEAVY', sorted(heavy & set(sys.modules))))\n"
        "weatherpp.cli.main()"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "HEAVY []" in result.stdout


def test_main_job_then_nothing_left_to_do(weatherpp: Command, workplace: Path) -> None:
    first = weatherpp("run", "tiny.yaml", cwd=workplace)
    assert first.returncode == 0, first.stderr
    assert "report: runs/tiny/report.html" in first.stdout
    run = workplace / "runs" / "tiny"
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "emos wins" in page
    scores = pd.read_parquet(run / "scores" / "scores.parquet")
    assert {"raw-10", "emos-5", "sample-spread-5", "regression-5"} == set(scores["method"])

    product = xr.open_dataset(run / "predictions" / "z500" / "emos-5.nc")
    assert {"mean", "spread", "quantiles"} <= set(product.data_vars)
    assert product["mean"].attrs["units"] == "m2 s-2"
    assert product.attrs["Conventions"].startswith("CF-")
    product.close()

    second = weatherpp("run", "tiny.yaml", cwd=workplace)
    assert second.returncode == 0
    assert "all stages were already done" in second.stdout
    assert not tasks(second, "done")
    assert len(tasks(second, "skipped")) == len(tasks(first, "done"))

    forced = weatherpp("run", "tiny.yaml", "--force", "verify", cwd=workplace)
    assert "verify/scores" in tasks(forced, "done")
    assert not [task for task in tasks(forced, "done") if task.startswith(("ingest", "fit"))]

    changed = weatherpp("run", "tiny.yaml", "--set", "methods.1.members.count=4", cwd=workplace)
    assert "fit/z500/emos-5" in tasks(changed, "done")
    assert "fit/z500/raw-10" in tasks(changed, "skipped")
    assert "ingest/archive" in tasks(changed, "skipped")

    claims = weatherpp("claims", "runs/tiny", cwd=workplace)
    verdict = claims.stdout.split()[0]
    assert claims.returncode == (0 if verdict == "holds" else 1)


def test_changed_input_is_noticed(weatherpp: Command, workplace: Path) -> None:
    weatherpp("ingest", "tiny.yaml", cwd=workplace)
    path = workplace / "files" / "analysis.nc"
    with xr.open_dataset(path) as ds:
        changed = (ds.load() * 1.001).assign_attrs(ds.attrs)
        for name in ds.data_vars:
            changed[name].attrs = ds[name].attrs
    changed.to_netcdf(path)
    again = weatherpp("ingest", "tiny.yaml", cwd=workplace)
    assert tasks(again, "done") == ["ingest/archive"], again.stderr


def test_failed_claim_exits_one(weatherpp: Command, workplace: Path) -> None:
    recipe = deepcopy(RECIPE)
    recipe["claims"] = [
        {"name": "raw wins", "target": "z500", "better": "raw-10", "than": "emos-5", "gain": 0.5}
    ]
    write_yaml(workplace / "tiny.yaml", recipe)
    assert weatherpp("run", "tiny.yaml", cwd=workplace).returncode == 0
    result = weatherpp("claims", "runs/tiny", cwd=workplace)
    assert result.returncode == 1
    assert "does not hold" in result.stdout


@pytest.mark.slow
@pytest.mark.parametrize("until", ["ingest/archive", "fit/z500/emos-5", "postprocess/predictions"])
def test_killed_run_goes_on_to_the_same_scores(
    weatherpp: Command, workplace: Path, until: str
) -> None:
    weatherpp("run", "tiny.yaml", "--run-dir", "runs/whole", cwd=workplace)
    command = [str(Path(sys.executable).with_name("weatherpp")), "run", "tiny.yaml"]
    with subprocess.Popen(
        [*command, "--run-dir", "runs/killed"], cwd=workplace, stderr=subprocess.PIPE, text=True
    ) as process:
        marker = workplace / "runs" / "killed" / "stages" / until
        deadline = time.monotonic() + 120
        while not any(marker.parent.glob(marker.name + "*")) and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert not (workplace / "runs" / "killed" / "report.html").exists()
    again = weatherpp("run", "tiny.yaml", "--run-dir", "runs/killed", cwd=workplace)
    assert again.returncode == 0, again.stderr
    whole, killed = (
        pd.read_parquet(workplace / "runs" / name / "scores" / "scores.parquet")
        for name in ("whole", "killed")
    )
    pd.testing.assert_frame_equal(whole, killed)


def test_second_run_at_once_is_refused(weatherpp: Command, workplace: Path) -> None:
    from weatherpp.pipeline.stages import RunFolder

    with RunFolder(workplace / "runs" / "tiny").locked():
        result = weatherpp("run", "tiny.yaml", cwd=workplace)
    assert_one_line(result, 4, "another run is at work")


def test_misspelt_recipe_key(weatherpp: Command, workplace: Path) -> None:
    recipe = deepcopy(RECIPE)
    recipe["verfy"] = {}
    write_yaml(workplace / "tiny.yaml", recipe)
    result = weatherpp("run", "tiny.yaml", cwd=workplace)
    assert_one_line(result, 2, "tiny.yaml", "'verfy'", "did you mean 'verify'")


def test_misspelt_method_setting_is_refused_before_any_work(
    weatherpp: Command, workplace: Path
) -> None:
    result = weatherpp(
        "run", "tiny.yaml", "--set", "methods.1.settings={scop: local}", cwd=workplace
    )
    assert_one_line(result, 2, "emos", "scop")
    assert not (workplace / "runs" / "tiny" / "archive.zarr").exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["run", "none.yaml"], ["none.yaml: no such recipe file"]),
        (["run", "nothing"], ["no recipe 'nothing'", "demo"]),
        (["run", "tiny.yaml", "--force", "fitt"], ["--force fitt", "postprocess"]),
        (["run", "tiny.yaml", "--set", "seed"], ["--set seed"]),
        (["run", "tiny.yaml", "--set", "methods.0.method=magic"], ["no method 'magic'"]),
        (["run", "tiny.yaml", "--set", "report.thresholds={q9: [1.0]}"], ["unknown target q9"]),
        (["run", "tiny.yaml", "--set", "report.maps=1000000000"], ["report.maps"]),
        (["run", "tiny.yaml", "--set", "products.quantiles=[]"], ["products.quantiles"]),
        (["catalog", "show", "nothing"], ["no catalog entry 'nothing'"]),
    ],
)
def test_wrong_usage(
    weatherpp: Command, workplace: Path, args: list[str], words: list[str]
) -> None:
    assert_one_line(weatherpp(*args, cwd=workplace), 2, *words)


def test_missing_file(weatherpp: Command, workplace: Path) -> None:
    (workplace / "files" / "forecast.nc").unlink()
    result = weatherpp("run", "tiny.yaml", cwd=workplace)
    assert_one_line(result, 3, "forecast.nc")
    assert_one_line(weatherpp("inspect", "none.nc", cwd=workplace), 3, "none.nc")
    assert_one_line(weatherpp("claims", "runs/none", cwd=workplace), 3, "no claims there")


def test_damaged_claims_and_what_is_no_file(weatherpp: Command, workplace: Path) -> None:
    scores = workplace / "runs" / "tiny" / "scores"
    scores.mkdir(parents=True)
    (scores / "claims.json").write_text('[{"name": "x"}]', encoding="utf-8")
    assert_one_line(weatherpp("claims", "runs/tiny", cwd=workplace), 3, "claims.json", "damaged")
    os.mkfifo(workplace / "pipe")
    assert_one_line(weatherpp("inspect", "pipe", cwd=workplace), 3, "neither a file nor a folder")


def test_truncated_grib(weatherpp: Command, workplace: Path, data_dir: Path) -> None:
    whole = (data_dir / "grib" / "era5-levels-members.grib").read_bytes()
    (workplace / "files" / "cut.grib").write_bytes(whole[: len(whole) - 1000])
    entry = {**ENTRY, "driver": "grib", "files": {"forecast": ["cut.grib"]}}
    write_yaml(workplace / "data_catalog" / "tiny.yaml", entry)
    assert_one_line(weatherpp("ingest", "tiny.yaml", cwd=workplace), 3, "cut.grib")


def rewrite(workplace: Path, change: object) -> None:
    path = workplace / "files" / "forecast.nc"
    with xr.open_dataset(path, decode_timedelta=True) as ds:
        changed = change(ds.load())  # type: ignore[operator]
    changed.to_netcdf(path)


def test_netcdf_without_members(weatherpp: Command, workplace: Path) -> None:
    rewrite(workplace, lambda ds: ds.isel(number=0, drop=True))
    result = weatherpp("ingest", "tiny.yaml", cwd=workplace)
    assert_one_line(result, 3, "forecast.nc", "member")


def test_wrong_units(weatherpp: Command, workplace: Path) -> None:
    def change(ds: xr.Dataset) -> xr.Dataset:
        ds["t"].attrs["units"] = "furlong"
        return ds

    rewrite(workplace, change)
    result = weatherpp("ingest", "tiny.yaml", cwd=workplace)
    assert_one_line(result, 3, "forecast.nc", "furlong", "t")


def test_nan_fields(weatherpp: Command, workplace: Path) -> None:
    def change(ds: xr.Dataset) -> xr.Dataset:
        ds["z"][3, 0, 2, 2] = float("nan")
        return ds

    rewrite(workplace, change)
    result = weatherpp("run", "tiny.yaml", cwd=workplace)
    assert_one_line(result, 3, "z")


def test_hostile_title_is_escaped(weatherpp: Command, workplace: Path) -> None:
    recipe = deepcopy(RECIPE)
    recipe["title"] = "<script>alert(1)</script>"
    write_yaml(workplace / "tiny.yaml", recipe)
    assert weatherpp("run", "tiny.yaml", cwd=workplace).returncode == 0
    page = (workplace / "runs" / "tiny" / "report.html").read_text(encoding="utf-8")
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_apply_one_model_to_one_file(weatherpp: Command, workplace: Path) -> None:
    weatherpp("postprocess", "tiny.yaml", cwd=workplace)
    result = weatherpp(
        "apply", "runs/tiny/models/z500/emos-5", "files/forecast.nc", "out.nc", cwd=workplace
    )
    assert result.returncode == 0, result.stderr
    with (
        xr.open_dataset(workplace / "out.nc") as out,
        xr.open_dataset(workplace / "runs/tiny/predictions/z500/emos-5.nc") as run,
    ):
        xr.testing.assert_allclose(out["mean"].sel(time=run["time"]), run["mean"])
    assert_one_line(
        weatherpp("apply", "runs/tiny", "files/forecast.nc", "out.nc", cwd=workplace), 3, "model"
    )


def test_apply_refuses_a_changed_model_and_other_members(
    weatherpp: Command, workplace: Path
) -> None:
    weatherpp("fit", "tiny.yaml", "--set", "methods.1.members={choose: all}", cwd=workplace)
    call = ("apply", "runs/tiny/models/z500/emos-5")
    with xr.open_dataset(workplace / "files" / "forecast.nc") as forecast:
        forecast.isel(number=slice(2)).to_netcdf(workplace / "two.nc")
    few = weatherpp(*call, "two.nc", "out.nc", cwd=workplace)
    assert_one_line(few, 3, "fitted on 10 members", "has 2", "count: 2")
    card = workplace / "runs/tiny/models/z500/emos-5/model.json"
    card.write_text(card.read_text().replace('"level": 500', '"level": 800'))
    changed = weatherpp(*call, "files/forecast.nc", "out.nc", cwd=workplace)
    assert_one_line(changed, 3, "model.json", "is not what was fitted")
    assert not (workplace / "out.nc").exists()


def test_apply_never_overwrites_its_input(weatherpp: Command, workplace: Path) -> None:
    weatherpp("fit", "tiny.yaml", cwd=workplace)
    before = (workplace / "files/forecast.nc").read_bytes()
    model = "runs/tiny/models/z500/emos-5"
    for output, words in (
        ("files/forecast.nc", "is the forecast itself"),
        ("files", "is no file"),
        ("nowhere/out.nc", "no such folder"),
    ):
        result = weatherpp("apply", model, "files/forecast.nc", output, cwd=workplace)
        assert_one_line(result, 2, words)
    assert (workplace / "files/forecast.nc").read_bytes() == before
    assert not list(workplace.rglob("*.part"))


def test_flipped_bits_in_the_archive_are_noticed(weatherpp: Command, workplace: Path) -> None:
    weatherpp("run", "tiny.yaml", cwd=workplace)
    chunk = max(
        (workplace / "runs/tiny/archive.zarr/forecast/z/c").rglob("*"),
        key=lambda path: path.stat().st_size if path.is_file() else 0,
    )
    state, content = chunk.stat(), bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 1
    chunk.write_bytes(content)
    os.utime(chunk, ns=(state.st_atime_ns, state.st_mtime_ns))
    result = weatherpp("run", "tiny.yaml", "--set", "seed=2", cwd=workplace)
    assert_one_line(result, 3, "archive.zarr", "--force ingest")
    again = weatherpp("run", "tiny.yaml", "--set", "seed=2", "--force", "ingest", cwd=workplace)
    assert again.returncode == 0, again.stderr


def test_full_disk_is_one_line_and_loses_nothing(weatherpp: Command, workplace: Path) -> None:
    small = workplace / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(small)], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("may not mount a small file system here")
    try:
        result = weatherpp("run", "tiny.yaml", "--run-dir", "small/run", cwd=workplace)
        assert_one_line(result, 1, "No space left")
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_no_analysis_at_valid_time_is_said(weatherpp: Command, workplace: Path) -> None:
    path = workplace / "files" / "analysis.nc"
    with xr.open_dataset(path, engine="netcdf4") as ds:
        moved = ds.load().assign_coords(valid_time=ds["valid_time"] + pd.Timedelta("1h"))
    moved.to_netcdf(path)
    result = weatherpp("verify", "tiny.yaml", cwd=workplace)
    assert_one_line(result, 3, "z500", "has an analysis at its valid time")


def test_growing_source_is_read_where_it_is_new(weatherpp: Command, workplace: Path) -> None:
    """A file a date; a later one is added, and the archive becomes that of all of them."""
    files = workplace / "files"
    with xr.open_dataset(files / "forecast.nc", decode_timedelta=True) as ds:
        forecast = ds.load()
    (files / "forecast.nc").unlink()
    times = forecast["time"].values
    forecast.isel(time=slice(0, 40)).to_netcdf(files / "fc_1.nc")
    entry = {**ENTRY, "files": {**ENTRY["files"], "forecast": ["fc_*.nc"]}}
    write_yaml(workplace / "data_catalog" / "tiny.yaml", entry)
    assert weatherpp("ingest", "tiny.yaml", cwd=workplace).returncode == 0
    forecast.isel(time=slice(40, None)).to_netcdf(files / "fc_2.nc")
    grown = weatherpp("ingest", "tiny.yaml", cwd=workplace)
    assert tasks(grown, "done") == ["ingest/archive"], grown.stderr
    weatherpp("ingest", "tiny.yaml", "--run-dir", "runs/anew", cwd=workplace)
    one, two = (
        Archive.open(workplace / "runs" / name / "archive.zarr") for name in ("tiny", "anew")
    )
    assert len(one.forecast["time"]) == len(times)
    xr.testing.assert_identical(one.forecast.load(), two.forecast.load())


def test_no_scheduler_is_said(weatherpp: Command, workplace: Path) -> None:
    for address, words in (("nonsense", "no address"), ("127.0.0.1:9", "no scheduler answers")):
        result = weatherpp("ingest", "tiny.yaml", "--scheduler", address, cwd=workplace)
        assert_one_line(result, 2, f"--scheduler {address}", words)


def test_catalog_check_ends_with_3_if_something_is_missing(
    weatherpp: Command, workplace: Path
) -> None:
    whole = weatherpp("catalog", "check", "tiny", cwd=workplace)
    assert whole.returncode == 0, whole.stderr
    assert "missing:" not in whole.stdout
    (workplace / "files" / "analysis.nc").unlink()
    lacking = weatherpp("catalog", "check", "tiny", "--root", "files", cwd=workplace)
    assert lacking.returncode == 3
    assert "missing: files/analysis.nc: no such analysis file" in lacking.stdout


def test_extremes_other_members_and_curves(weatherpp: Command, workplace: Path) -> None:
    """Dates scored apart, the spread of members that were not given, and curves."""
    few = [
        {"label": "raw-{count}", "method": "raw", "each": {"count": [2, 5, 10]}},
        {"label": "emos-{count}", "method": "emos", "each": {"count": [2, 5]}},
    ]
    spread = {"job": "spread", "full": "others", "members": FIVE}
    recipe = {
        **RECIPE,
        "methods": [
            *few,
            RECIPE["methods"][2],
            {"label": "others", "method": "raw", **spread},
            {"label": "regression-others", "method": "spread-regression", **spread},
        ],
        "verify": {
            "extremes": 0.2,
            "curves": [
                {
                    "title": "CRPS against members",
                    "by": "members",
                    "worth": "raw",
                    "lines": {
                        "raw": {m: f"raw-{m}" for m in (2, 5, 10)},
                        "emos": {m: f"emos-{m}" for m in (2, 5)},
                    },
                }
            ],
        },
        "claims": [
            {
                "name": "EMOS on extremes",
                "target": "z500",
                "better": "emos-5",
                "than": "raw-5",
                "region": "extreme dates",
                "gain": -1,
            },
        ],
    }
    write_yaml(workplace / "tiny.yaml", recipe)
    done = weatherpp("run", "tiny.yaml", cwd=workplace)
    assert done.returncode == 0, done.stderr
    scores = workplace / "runs" / "tiny" / "scores"
    table = pd.read_parquet(scores / "scores.parquet")
    apart = table[table["region"] == "extreme dates"]
    assert set(apart["method"]) == {"raw-2", "raw-5", "raw-10", "emos-2", "emos-5"}
    assert (apart["dates"] == 3).all()
    # errors of two kinds of spread are told apart, and never compared with each other
    kinds = table[table["score"] == "spread_rmse"].set_index("method")["estimator"]
    assert kinds.to_dict() == {
        "sample-spread-5": "",
        "others": "other members",
        "regression-others": "other members",
    }
    gains = pd.read_parquet(scores / "gains.parquet")
    pairs = gains[gains["score"] == "spread_rmse"][["method", "reference"]]
    assert {("sample-spread-5", "others")}.isdisjoint(map(tuple, pairs.to_numpy()))
    # the target is the spread of members 5 to 9 alone
    forecast = xr.open_dataset(workplace / "files" / "forecast.nc")
    field = forecast["z"].sel(level=500, step="48h", time="2003")
    off = (
        field.isel(number=slice(5)).std("number", ddof=1)
        - field.isel(number=slice(5, 10)).std("number", ddof=1)
    ) ** 2
    weights = grid_weights(field)
    expected = float(off.weighted(weights).mean() ** 0.5)
    of_others = table[(table["method"] == "others") & (table["score"] == "spread_rmse")]
    assert float(of_others["value"].iloc[0]) == pytest.approx(expected, rel=1e-4)
    page = (workplace / "runs" / "tiny" / "report.html").read_text(encoding="utf-8")
    assert "Gains on extreme dates" in page
    assert "As good for z500, by members" in page
