"""Make docs/real-files.md: every real sample file, and what weatherpp makes of it.

    WEATHERPP_EXTRA_DATA=FOLDER python docs/make_real_files.py [--write]

Tries each file with ``inspect`` and with every catalog entry that names it; prints the page, or
writes it in its place with ``--write``. The wording of a refusal is that of weatherpp itself.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, get_args

from cartopy.io import shapereader

from weatherpp.data.catalog import CatalogEntry, Files, Group, list_entries, load_entry
from weatherpp.data.catalog_check import check_source
from weatherpp.data.ingest import lay_out_source, read
from weatherpp.data.inspect import counted, inspect
from weatherpp.errors import WeatherppError

PAGE = Path(__file__).with_name("real-files.md")
HERE = "tests/data/"
MAPS = "natural_earth"
HEAD = """\
# Real sample files

Every real file that `weatherpp` was tried on, and the result. The folder is named by the
environment variable `WEATHERPP_EXTRA_DATA`; what its licence allows is also under `tests/data`.
Made by `python docs/make_real_files.py --write`; a test holds it against the code.

*inspect* is what `weatherpp inspect` says first, *entry* the catalog entry that reads the file,
*read* what comes of it (or why it is refused), *good for* what can be done with it: `fit` and
`postprocess` need an ensemble, `verify` an analysis besides.
"""
NAMES = {"time": "start", "step": "lead time", "number": "member"}
# Files that no entry names, tried with one that comes near.
NEAR: dict[str, tuple[str, str, Group]] = {
    "mogreps_uk_lagged/mixed_validity/*.nc": ("mogreps-uk-lagged", "netcdf", "forecast"),
    "grib/tiggelam_cnmc_sfc.grib2": ("ecmwf-open", "grib", "forecast"),
    "grib/O32_global.grib2": ("hres-t2m", "grib", "analysis"),
    "grib/tp_on_different_grid_resolutions.grib": ("gusts-ens", "grib", "analysis"),
}


class Reading(NamedTuple):
    """What a source gives as a whole."""

    entry: str
    read: str
    use: str


def page(extra: Path) -> str:
    """The page for the files in a folder."""
    lines = [HEAD]
    folder = None
    for file, row in rows(extra):
        if file.parent.as_posix() != folder:
            folder = file.parent.as_posix()
            head = "| file | inspect | entry | read | good for |\n| --- | --- | --- | --- | --- |"
            lines += ["", f"## {folder}", "", head]
        cells = [f"`{file.name}`", *row]
        lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def rows(extra: Path, under: str = "") -> Iterator[tuple[Path, list[str]]]:
    """Each file relative to the folder, or to a part of it, and the cells behind its name."""
    known = readings(extra, under)
    there = (extra / under).rglob("*")
    for path in sorted(p for p in there if p.is_file() and p.name != "README.md"):
        file = path.relative_to(extra)
        if file.parts[0] == MAPS:
            yield file, ["", "", shape(path), "coastlines and borders of the maps"]
            continue
        found = known.get(file.as_posix()) or [refused(path, extra)]
        said = first_words(path)
        yield (
            file,
            [
                said,
                ", ".join(f"`{reading.entry}`" for reading in found if reading.entry) or "none",
                "; ".join(dict.fromkeys(reading.read for reading in found)),
                "; ".join(dict.fromkeys(reading.use for reading in found)),
            ],
        )


def readings(extra: Path, under: str) -> dict[str, list[Reading]]:
    """By file, what the entries that name it make of it."""
    out: dict[str, list[Reading]] = {}
    for entry in list_entries():
        root = root_of(entry, extra)
        if root is None or not root.is_relative_to(extra / under):
            continue
        groups: tuple[Group, ...] = get_args(Group)
        files = [root / name for group in groups for name in entry.names(group, str(root))]
        reading = reading_of(entry, root, extra)
        for file in dict.fromkeys(files):
            out.setdefault(file.relative_to(extra).as_posix(), []).append(reading)
    for pattern, (name, driver, group) in NEAR.items():
        files = Files.model_validate({group: [pattern]})
        update = {"files": files, "driver": driver, "variables": {}}
        near = load_entry(name).model_copy(update=update)
        for path in sorted(extra.glob(pattern)) if pattern.startswith(under) else ():
            out[path.relative_to(extra).as_posix()] = [reading_of(near, extra, extra, near=True)]
    return out


def root_of(entry: CatalogEntry, extra: Path) -> Path | None:
    """Where in the folder the entry's files are; None for sources that are not there."""
    if entry.root.startswith(HERE):
        return extra / entry.root.removeprefix(HERE)
    if entry.root.startswith("${WEATHERPP_EXTRA_DATA}"):
        return extra / entry.root.removeprefix("${WEATHERPP_EXTRA_DATA}").lstrip("/")
    return None


def reading_of(entry: CatalogEntry, root: Path, extra: Path, near: bool = False) -> Reading:
    """What an entry makes of its files, as an ingest begins."""
    name = "" if near else entry.name
    try:
        if not (entry.files.forecast or entry.files.control):
            ds = read(entry, "analysis", root)
            assert ds is not None
            return Reading(
                name, counted(ds.sizes["valid_time"], "field"), "truth of other forecasts"
            )
        read(entry, "forecast", root)  # looks at values of the first fields too
        laid = lay_out_source(entry, root, None)
        sizes = laid["forecast"].ds.sizes
    except WeatherppError as error:
        return Reading(
            name, f"refused: {plain(error, extra)}", "no, as the entry stands" if name else "no"
        )
    text = ", ".join(counted(sizes[dim], what) for dim, what in NAMES.items())
    if sizes["number"] < 2:
        return Reading(name, text, "comparison; one member is no ensemble")
    if "analysis" not in laid:
        return Reading(name, text, "postprocess with a model learnt elsewhere")
    lacking = sum(f.missing for f in check_source(entry, str(root)))
    number = laid["analysis"].ds.sizes["valid_time"]
    use = "fit, postprocess, verify" if sizes["time"] > 1 else "verify; one date is none to fit to"
    return Reading(
        name,
        f"{text}; {counted(number, 'valid time')} of truth",
        use + (", with gaps" if lacking else ""),
    )


def refused(path: Path, extra: Path) -> Reading:
    """A file that no entry names: why."""
    try:
        found = inspect(path)
    except WeatherppError as error:
        return Reading("", f"refused: {plain(error, extra)}", "no")
    return Reading("", f"no entry; missing: {'; '.join(found.missing)}", "no")


def first_words(path: Path, most: int = 160) -> str:
    """The beginning of what ``inspect`` says."""
    try:
        text = "; ".join(line.strip() for line in inspect(path).lines)
    except WeatherppError:
        return "refused"
    return text if len(text) <= most else text[:most].rsplit(" ", 1)[0] + " ..."


def shape(path: Path) -> str:
    """What is in a shapefile, or that it is a part of one."""
    if path.suffix != ".shp":
        return f"part of `{path.stem}.shp`"
    return f"{len(list(shapereader.Reader(path).records()))} shapes"


def plain(error: Exception, extra: Path) -> str:
    """A message without the folder of this machine."""
    return re.sub(rf"{re.escape(str(extra))}/?", "", " ".join(str(error).split()))


def main() -> None:
    """Print the page or write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write docs/real-files.md")
    extra = os.environ.get("WEATHERPP_EXTRA_DATA")
    arguments = parser.parse_args()
    if not extra:
        parser.error("WEATHERPP_EXTRA_DATA is not set; it names the folder of the files")
    text = page(Path(extra))
    if arguments.write:
        PAGE.write_text(text, encoding="utf-8")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
