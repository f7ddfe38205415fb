"""A report of made-up numbers, with the tables and maps that a real run would have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import xarray as xr
from scipy.ndimage import gaussian_filter

from weatherpp.report import maps
from weatherpp.report.content import Figure, ReportData, Section
from weatherpp.report.figures import training_curve
from weatherpp.report.words import summary

METHODS = {"raw-full": 50, "raw": 10, "climatology": 0, "emos": 10, "mbm": 10, "mixed": 5}
LEVEL = {"z500": 62.0, "t850": 0.62}
UNITS = {"z500": "m2 s-2", "t850": "K"}
# CRPS of each method relative to the level of its target
RELATIVE = {"raw-full": 1.0, "raw": 1.06, "climatology": 3.1, "emos": 0.93, "mbm": 0.94}
MIXED = {"z500": 0.90, "t850": 0.932}


def scores() -> pd.DataFrame:
    """Score table of two targets, two regions."""
    rows = []
    for target, level in LEVEL.items():
        for region, factor in (("global", 1.0), ("tropics", 0.6)):
            for method, members in METHODS.items():
                crps = level * factor * RELATIVE.get(method, MIXED[target])
                ratio = {"raw-full": 0.82, "raw": 0.80, "mbm": 0.97, "mixed": 1.02}.get(method, 1.0)
                kinds = {"normal": 1.0}
                if method in ("raw-full", "raw", "mbm"):
                    kinds = {"plain": 1 + 1 / members, "fair": 1.0, "gaussian": 1.03}
                values = [("crps", kind, crps * size) for kind, size in kinds.items()]
                values += [
                    ("rmse", "", 1.8 * crps),
                    ("bias", "", crps * (0.11 - 0.1 * (ratio > 0.9))),
                ]
                values += [("spread_skill", "", ratio)]
                if method not in ("raw-full", "climatology"):
                    values.append(("spread_rmse", "", 0.2 * crps * (1.5 if method == "raw" else 1)))
                for score, kind, value in values:
                    units = "1" if score == "spread_skill" else UNITS[target]
                    rows.append(
                        (
                            *(method, members, target, 48.0, region, score, kind),
                            *(value, value * 0.975, value * 1.025, units, 104),
                        )
                    )
    columns = "method members target step_hours region score estimator value low high units dates"
    return pd.DataFrame(rows, columns=columns.split())


def gains() -> pd.DataFrame:
    """Gains over the raw ensemble and EMOS; one of them not certain, one negative."""
    rows = []
    for target in LEVEL:
        for reference, kinds in (("raw", ("plain", "fair")), ("emos", ("normal",))):
            for method in ("emos", "mbm", "mixed"):
                if method == reference:
                    continue
                for kind in kinds:
                    base = RELATIVE[reference] * (1.1 if kind == "plain" else 1.0)
                    gain = 1 - RELATIVE.get(method, MIXED[target]) / base
                    low, high = gain - 0.009, gain + 0.008
                    rows.append(
                        (
                            *(target, "crps", method, reference, kind, gain, low, high),
                            bool(low > 0 or high < 0),
                        )
                    )
    columns = "target score method reference reference_estimator gain low high excludes_zero"
    return pd.DataFrame(rows, columns=columns.split())


def claims() -> list[dict[str, object]]:
    """Claims of all three sorts."""
    return [
        {
            "name": "mixed-beats-raw",
            "text": "z500 crps: mixed (normal) against raw (fair), 104 dates",
            "value": 0.151, "low": 0.142, "high": 0.159, "bound": 0.05, "holds": True,
        },
        {
            "name": "mixed-beats-emos",
            "text": "t850 crps: mixed (normal) against emos (normal), 104 dates",
            "value": -0.002, "low": -0.011, "high": 0.006, "bound": 0.0, "holds": False,
        },
        {
            "name": "mbm-against-emos",
            "text": "z500 crps: mbm (plain) against emos (normal), 104 dates",
            "value": -0.011, "low": -0.02, "high": -0.003, "bound": 0.0, "holds": None,
        },
    ]  # fmt: skip


def histograms() -> dict[str, dict[str, np.ndarray]]:
    """U-shaped for the raw ensemble, nearly flat for the others."""
    x = np.linspace(-1, 1, 11)
    raw = 0.55 + 1.6 * x**4 + 0.25 * x
    flat = 1 + 0.08 * np.cos(5 * x)
    deep = raw.copy()
    deep[[0, -1]] = 3.5, 4.6
    return {
        "z500": {"raw": raw, "emos": flat, "mbm": 1 + 0.2 * x**2, "mixed": 1.05 - 0.1 * x**2},
        "t850": {"raw": deep, "emos": flat[::-1], "mbm": 1 - 0.15 * x, "mixed": flat},
    }


def height(seed: int, resolution: float = 1.5) -> xr.DataArray:
    """Geopotential with a jet and waves, for 3 March 2020."""
    rng = np.random.default_rng(seed)
    latitude = np.arange(90, -90.01, -resolution)
    longitude = np.arange(0, 360, resolution)
    phi, lam = np.meshgrid(np.deg2rad(latitude), np.deg2rad(longitude), indexing="ij")
    field = 57600 - 7200 * np.sin(phi) ** 2 + 0 * lam
    for wave in range(1, 9):
        phase = rng.uniform(0, 6.3) + 1.5 * np.sin(2 * phi)
        field += 1400 / wave * np.cos(phi) ** 2 * np.sin(2 * phi) ** 2 * np.sin(wave * lam + phase)
    return xr.DataArray(
        field,
        dims=("latitude", "longitude"),
        coords={
            "latitude": latitude,
            "longitude": longitude,
            "time": np.datetime64("2020-03-01T12:00"),
            "step": np.timedelta64(48, "h"),
            "level": 500,
        },
        name="z",
        attrs={"units": "m2 s-2", "long_name": "geopotential"},
    )


def case_figures() -> list[Figure]:
    """Maps of one forecast, and of a probability."""
    truth = height(1)
    rng = np.random.default_rng(5)

    def smooth(size: float) -> np.ndarray:
        noise = gaussian_filter(rng.normal(size=truth.shape), 5, mode=("nearest", "wrap"))
        weight = 0.25 + np.abs(np.sin(np.deg2rad(truth["latitude"].values)))[:, None]
        return noise / noise.std() * size * weight

    raw = truth.copy(data=truth.values + smooth(180) + 60)
    post = truth.copy(data=raw.values - 60 - 0.4 * (raw.values - 60 - truth.values))
    raw_spread = truth.copy(data=np.abs(110 + smooth(40)))
    post_spread = truth.copy(data=np.abs(130 + smooth(60)))
    case = maps.case_maps(
        truth, raw, post, raw_spread, post_spread, raw_label="raw", post_label="mixed"
    )
    chance = 1 / (1 + np.exp(-(raw - 55500) / 500))
    chance = chance.assign_attrs(units="1", long_name="probability")
    both = maps.probability_maps(
        [chance, chance**1.5],
        ["raw", "mixed"],
        event="geopotential at 500 hPa above 55 500 m² s⁻²",
        observed=truth > 55500,
    )
    return [case, both]


def report() -> ReportData:
    """The whole sample."""
    epochs = np.arange(1, 41)
    history = pd.DataFrame(
        {
            "epoch": epochs,
            "train": 0.9 * np.exp(-epochs / 9) + 0.31,
            "valid": 0.8 * np.exp(-epochs / 8) + 0.36 + 0.0015 * epochs,
        }
    )
    curve = replace(training_curve(history, label="mixed"), methods=("mixed",))
    return ReportData(
        title="Two-day forecasts from five members",
        name="sample",
        summary=summary(scores(), gains(), claims()),
        notes=["All numbers in this report are made up, to show what a report looks like."],
        claims=claims(),
        scores=scores(),
        gains=gains(),
        histograms=histograms(),
        sections=[
            Section("Case of 3 March 2020", ["One date of the test years."], case_figures()),
            Section("Training", ["The network mixed."], [curve]),
        ],
        provenance={
            "Made": "Monday 30 November 2026, 08:00 UTC",
            "Seed": "7",
            "weatherpp": "0.1.0",
            "Commit": "0123456789abcdef0123456789abcdef01234567",
            "Test dates": "3 January 2020 to 30 December 2020",
        },
        recipe_text="name: sample\nseed: 7\nsource:\n  twin: {}\ntargets:\n  - variable: z\n",
    )
