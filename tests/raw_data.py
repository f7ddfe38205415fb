"""Small forecasts in the names of other sources, for the tests of reading."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

H = np.timedelta64(3600 * 10**9, "ns")


def field(dims: str, *shape: int, **attrs: Any) -> xr.DataArray:
    values = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    return xr.DataArray(values, dims=dims.split(), attrs=attrs)


def ensemble(
    *, starts: Any = "2020-01-01", leads: Any = (6, 12), members: Any = (0, 1), **attrs: Any
) -> xr.Dataset:
    """Forecast in the names of ECMWF, two by three points."""
    times = pd.DatetimeIndex(np.atleast_1d(starts))
    shape = (len(times), len(leads), len(members), 2, 3)
    da = field("reference step number lat lon", *shape, **{"units": "K", **attrs})
    return xr.Dataset(
        {"t2m": da},
        {
            "reference": times,
            "step": ("step", np.asarray(leads), {"units": "hours"}),
            "number": np.asarray(members),
            "lat": [50.0, 40.0],
            "lon": [0.0, 1.0, 2.0],
        },
    )
