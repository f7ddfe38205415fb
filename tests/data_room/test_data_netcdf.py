"""netCDF files written by the package."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
from pathlib import Path
import dask.array as da
import numpy as np
import xarray as xr
from weatherpp.data import netcdf

values = da.from_array(np.arange(240.0).reshape(4, 3, 4, 5), chunks=(1, 1, 4, 5))
value = xr.DataArray(
    values,
    dims=("time", "number", "latitude", "longitude"),
    coords={
        "time": np.datetime64("2001-01-01", "ns") + np.arange(4) * np.timedelta64(84, "h"),
        "number": [0, 1, 2],
        "latitude": [60.0, 50.0, 40.0, 30.0],
        "longitude": [0.0, 1.0, 2.0, 3.0, 4.0],
    },
)
ds = xr.Dataset({"value": value, "mean": value.mean("number")})
netcdf.write(ds[["value", "mean"]], Path(sys.argv[1]))
"""


def test_equal_data_give_equal_bytes_in_every_process(tmp_path: Path) -> None:
    contents = set()
    for seed in ("1", "2", "3"):
        path = tmp_path / f"{seed}.nc"
        subprocess.run(
            [sys.executable, "-c", SCRIPT, str(path)],
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        contents.add(path.read_bytes())
    assert len(contents) == 1
