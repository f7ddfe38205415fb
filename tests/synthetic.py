"""A small canonical archive with known faults, for the tests of all rooms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from scipy import ndimage

from weatherpp.conventions import annotate
from weatherpp.data.archive import Archive, write_archive

LEVELS = (200, 350, 500, 650, 800)
FIELDS = {  # variable -> (mean by level, scale, bias of the forecast)
    "z": ({200: 115000.0, 500: 55000.0, 800: 19000.0}, 800.0, 150.0),
    "t": ({350: 250.0, 650: 250.0}, 6.0, -1.0),
}


def make_datasets(
    years: int = 3,
    dates: int = 20,
    members: int = 10,
    shape: tuple[int, int] = (16, 32),
    steps: tuple[str, ...] = ("24h", "48h"),
    seed: int = 1,
) -> tuple[xr.Dataset, xr.Dataset, xr.Dataset]:
    """Forecast, analysis and static fields, seeded.

    Truth = predictable pattern + error; each member = pattern + bias + its own, too small
    error (half the true one). The size of the error varies from date to date and is the same
    for truth and members, so the spread is informative.
    """
    rng = np.random.default_rng(seed)
    times = pd.DatetimeIndex(
        [
            pd.Timestamp(2001 + year, 1, 1) + pd.Timedelta(days=4 * date)
            for year in range(years)
            for date in range(dates)
        ]
    )
    leads = pd.TimedeltaIndex(steps)
    grid = {
        "latitude": np.linspace(75.0, 15.0, shape[0]),
        "longitude": np.arange(shape[1]) * 360.0 / shape[1],
    }

    def smooth(*lead: int) -> np.ndarray:
        noise = rng.standard_normal((*lead, *shape))
        for axis, mode in ((-2, "nearest"), (-1, "wrap")):
            noise = ndimage.gaussian_filter1d(noise, 1.5, axis=axis, mode=mode)
        return noise / noise.std()

    valid = (times.values[:, None] + leads.values[None, :]).ravel()
    valid_index = pd.DatetimeIndex(valid).unique().sort_values()
    nt, ns, nl = len(times), len(leads), len(LEVELS)
    forecast, analysis = {}, {}
    f_dims = ("time", "step", "number", "level", *grid)
    a_dims = ("valid_time", "level", *grid)
    for name, (means, scale, bias) in FIELDS.items():
        fc = np.full((nt, ns, members, nl, *shape), np.nan, dtype="float32")
        an = np.full((len(valid_index), nl, *shape), np.nan, dtype="float32")
        for level, mean in means.items():
            at = LEVELS.index(level)
            truth = mean + scale * smooth(len(valid_index))
            an[:, at] = truth
            for s, lead in enumerate(leads):
                row = valid_index.get_indexer(times + lead)
                size = 0.3 * scale * (1 + s) * rng.uniform(0.5, 1.5, (nt, 1, 1))
                centre = truth[row] + size * smooth(nt)
                errors = smooth(nt, members)
                fc[:, s, :, at] = centre[:, None] + bias + 0.5 * size[:, None] * errors
        attrs = {"levels": list(means)}
        forecast[name] = xr.DataArray(fc, dims=f_dims, attrs=attrs)
        analysis[name] = xr.DataArray(an, dims=a_dims, attrs=attrs)
    fc_coords = {"time": times, "step": leads, "number": np.arange(members), "level": list(LEVELS)}
    fc_ds = xr.Dataset(forecast, {**fc_coords, **grid})
    fc_ds = fc_ds.assign_coords(valid_time=fc_ds["time"] + fc_ds["step"])
    an_ds = xr.Dataset(analysis, {"valid_time": valid_index, "level": list(LEVELS), **grid})
    orog = np.maximum(smooth(), 0).astype("float32") * 500
    static = xr.Dataset(
        {
            "orog": (("latitude", "longitude"), orog),
            "lsm": (("latitude", "longitude"), (orog > 0).astype("float32")),
        },
        grid,
    )
    return annotate(fc_ds), annotate(an_ds), annotate(static)


def make_archive(path: Path, **settings: object) -> Archive:
    """The Datasets of :func:`make_datasets` written as an archive."""
    forecast, analysis, static = make_datasets(**settings)  # type: ignore[arg-type]
    attrs = {"title": "synthetic", "licence": "none"}
    return write_archive(path, forecast, analysis, static, attrs=attrs)
