"""The standard atmosphere of ICAO (Doc 7488, 1993; ISO 2533:1975), to judge values on levels by.

Layers of constant lapse rate on top of 1013.25 hPa and 288.15 K; up to 32 km it is that of ICAO,
above that of the U.S. Standard Atmosphere 1976, which goes on in the same way.
"""

from __future__ import annotations

import math

from weatherpp.conventions import GRAVITY

SEA_LEVEL = 1013.25
GAS_CONSTANT = 287.05287
"""Of dry air, J kg-1 K-1."""
# geopotential height of the base (m), lapse rate (K m-1)
LAYERS = (
    (0.0, -6.5e-3),
    (11e3, 0.0),
    (20e3, 1e-3),
    (32e3, 2.8e-3),
    (47e3, 0.0),
    (51e3, -2.8e-3),
    (71e3, -2e-3),
)


def standard(pressure: float) -> tuple[float, float]:
    """Geopotential height (m) and temperature (K) of the standard atmosphere at a pressure (hPa).

    Within a layer that begins at height h0, pressure p0 and temperature T0 the hydrostatic
    equation gives h = h0 + T0 / L ((p / p0)^(-R L / g) - 1), or h0 + R T0 / g ln(p0 / p) for a
    lapse rate L of 0 (Doc 7488, equations 12 and 13).
    """
    temperature, base = 288.15, SEA_LEVEL
    tops = [bottom for bottom, _ in LAYERS[1:]] + [math.inf]
    for (bottom, lapse), top in zip(LAYERS, tops, strict=True):
        above = temperature + lapse * (top - bottom) if math.isfinite(top) else 0.0
        if lapse == 0.0:
            scale = GAS_CONSTANT * temperature / GRAVITY
            ceiling = base * math.exp((bottom - top) / scale)
            height = bottom + scale * math.log(base / pressure)
        else:
            power = GAS_CONSTANT * lapse / GRAVITY
            ceiling = base * (above / temperature) ** (-1 / power) if above else 0.0
            height = bottom + temperature / lapse * ((pressure / base) ** -power - 1)
        if pressure >= ceiling:
            break
        temperature, base = above, ceiling
    return height, temperature + lapse * (height - bottom)
