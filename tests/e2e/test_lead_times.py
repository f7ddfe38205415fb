"""One network for two lead times, fitted once in a run."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path

import numpy as np
import xarray as xr
from jobs import FIVE, RECIPE, Command, write_yaml


def test_two_lead_times_are_fitted_once(weatherpp: Command, workplace: Path) -> None:
    recipe = deepcopy(RECIPE)
    field = {"variable": "z", "level": 500}
    recipe["targets"] = [{"label": f"z-{hour}h", **field, "step": f"{hour}h"} for hour in (24, 48)]
    settings = {"base": "raw", "width": 2, "depth": 1, "training": {"epochs": 1}}
    entry = {"label": "leads", "method": "mixed-leads", "members": FIVE, "settings": settings}
    recipe["methods"] = [entry]
    recipe["claims"] = []
    write_yaml(workplace / "tiny.yaml", recipe)
    result = weatherpp("postprocess", "tiny.yaml", cwd=workplace)
    assert result.returncode == 0, result.stderr
    run = workplace / "runs" / "tiny"
    folders = [run / "models" / name / "leads" for name in ("z-24h", "z-48h")]
    weights = [(folder / "networks.safetensors").read_bytes() for folder in folders]
    assert weights[0] == weights[1]
    cards = [json.loads((folder / "model.json").read_text()) for folder in folders]
    assert [card["target"]["step"] for card in cards] == ["24h", "48h"]
    assert [sorted(card["parameters"]["parts"]) for card in cards] == [["24", "48"], ["48"]]
    predictions = []
    for name in ("z-24h", "z-48h"):
        with xr.open_dataset(run / "predictions" / name / "leads.nc", decode_timedelta=True) as ds:
            predictions.append(ds["mean"].load())
    assert bool(np.isfinite(predictions).all())
    assert not np.allclose(*predictions)

    # another network makes all that rests on it stale
    again = weatherpp("fit", "tiny.yaml", "--set", "methods.0.seed=2", cwd=workplace)
    done = [line.split()[1] for line in again.stderr.splitlines() if line.strip()[:4] == "done"]
    assert {"fit/z-24h/leads", "fit/z-48h/leads"} <= set(done)
