"""What the methods of a run were scored against, and how a reader can tell that it was the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import xarray as xr

from weatherpp import distribution
from weatherpp.conventions import has_gaps
from weatherpp.data.archive import Archive
from weatherpp.data.fields import ensemble_spread
from weatherpp.data.matching import truth_for
from weatherpp.files import write_whole
from weatherpp.pipeline.products import open_product, without_scalars
from weatherpp.recipe import MethodEntry, Target
from weatherpp.verify import table
from weatherpp.verify.accumulate import date_blocks

if TYPE_CHECKING:
    from weatherpp.pipeline.job import Job

VERIFIED = ("target", "method", "time", "digest")
"""Columns of ``verified.parquet``: a hash of what each forecast was scored against."""


@dataclass
class Verified:
    """Hashes of the truth by target, method and date."""

    rows: list[pd.DataFrame] = field(default_factory=list)

    def add(self, target: str, method: str, truth: xr.DataArray) -> None:
        """Note what a method is scored against, (time, grid...), and on which points."""
        places = hashlib.sha256()
        for name in sorted(set(truth.dims) - {"time"} | {"latitude", "longitude"}, key=str):
            if name in truth.coords:
                values = truth[name].values
                rounded = np.round(values, 4) if values.dtype.kind == "f" else values
                places.update(f"{name} {rounded.tolist()}".encode())
        dims = sorted(set(truth.dims) - {"time"}, key=str)
        found = []
        for part in date_blocks(truth):
            values = truth.isel(time=part).transpose("time", *dims).astype(np.float32).values
            for date in np.ascontiguousarray(values):
                hasher = places.copy()
                hasher.update(date.tobytes())
                found.append(hasher.hexdigest()[:16])
        times = pd.DatetimeIndex(truth["time"].values)
        columns = {"target": target, "method": method, "time": times, "digest": found}
        self.rows.append(pd.DataFrame(columns))


def write_verified(verified: Verified, targets: Iterable[Target], folder: Path) -> None:
    """Write ``verified.parquet`` and ``targets.json``, which tells what each target is."""
    empty = pd.DataFrame(columns=list(VERIFIED))
    table.write(verified.rows or [empty], folder / "verified.parquet")
    about = {
        target.name: {
            "variable": target.model_copy(update={"label": None}).name,
            "step_hours": target.lead / pd.Timedelta(hours=1),
        }
        for target in targets
    }
    write_whole(folder / "targets.json", json.dumps(about, indent=1) + "\n")


def prediction(job: Job, target: Target, label: str) -> Path:
    """Where a method's predictions for a target are."""
    return job.run.path / "predictions" / target.name / f"{label}.nc"


def references(
    job: Job,
    archive: Archive,
    entry: MethodEntry,
    target: Target,
    dist: xr.Dataset,
    files: ExitStack,
) -> tuple[xr.DataArray | None, xr.DataArray | None]:
    """What a method is scored against, lazy: the analysis, or the spread of the full ensemble.

    Where values are missing, the analysis is cut to the pairs that every method has; the files
    that are read for that stay open as long as ``files``.
    """
    times = pd.DatetimeIndex(dist["time"].to_numpy())
    if entry.job == "spread":
        full = job.full_ensemble(archive, target, entry, times)
        return None, without_scalars(ensemble_spread(full))
    if archive.analysis is None:
        return None, None
    found = truth_for(archive.analysis, target, times, like=distribution.pattern(dist))
    truth = without_scalars(found)
    if any(map(has_gaps, (truth, *dist.data_vars.values()))):
        truth = _same_pairs(job, target, truth, files).assign_attrs(truth.attrs)
    return truth, None


def _same_pairs(job: Job, target: Target, truth: xr.DataArray, files: ExitStack) -> xr.DataArray:
    """The truth where every forecast of the target has a value, so that all are compared alike."""
    paths = [prediction(job, target, e.label) for e in job.recipe.methods if e.job == "forecast"]
    dists = [files.enter_context(open_product(path)) for path in paths if path.is_file()]
    return table.same_pairs(dists, truth)
