"""Parameters of the model and of its reference state; nothing here needs torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelParameters:
    """Everything that defines one model, apart from the source ``S``."""

    truncation: int
    nlon: int
    steps_per_day: int
    radius_12: float = 700e3
    """Rossby radius between 200 and 500 hPa, m."""
    radius_23: float = 450e3
    """Rossby radius between 500 and 800 hPa, m."""
    depth: float = 9000.0
    """Scale height H0 of the orographic term, m."""
    relax_days: float = 25.0
    ekman_days: float = 3.0
    ekman_land: float = 0.5
    """Extra friction over land, as a fraction of that over sea."""
    ekman_mountain: float = 1.0
    """Extra friction over high mountains, ``1 - exp(-h / 1000 m)`` times this."""
    diffusion_days: float = 0.2
    """e-folding time of ``del**8`` at the truncation wavenumber."""
    orography: float = 1.0
    """Factor on the height of the mountains."""
    orography_smoothing: float = 0.0
    """Gaussian filter ``exp(-s (n / N)**2)`` on the mountains."""


@dataclass(frozen=True)
class Centre:
    """A high or low of the reference stationary wave: a Gaussian in latitude and longitude."""

    latitude: float
    longitude: float
    height: float
    """Height anomaly at 500 hPa in m (streamfunction ``g height / F_MIDDLE``)."""
    east: float
    """Standard deviation eastward, degrees of arc."""
    north: float
    """Standard deviation northward, degrees of arc."""
    tilt: float
    """Displacement of the 200 (800) hPa centre to the west (east), degrees of longitude."""


CENTRES = (
    Centre(48, 140, -190, 16, 11, 4),  # trough off East Asia
    Centre(53, 285, -170, 14, 11, 4),  # trough over eastern North America
    Centre(57, 228, 120, 14, 10, 4),  # ridge along the west coast of North America
    Centre(56, 345, 130, 15, 11, 4),  # ridge over the eastern Atlantic
    Centre(58, 80, 35, 20, 10, 3),  # Siberia
    Centre(42, 45, -55, 14, 9, 3),  # trough over the Near East
    Centre(24, 145, 85, 22, 8, 0),  # subtropical high, sharpens the jet off Asia
    Centre(25, 285, 75, 18, 8, 0),  # same, off North America
    Centre(-55, 20, -50, 30, 10, 3),  # southern wave number one
    Centre(-52, 200, 50, 30, 10, 3),
)


@dataclass(frozen=True)
class Reference:
    """The reference state: Gaussian jets (north, south) and the stationary wave.

    Winds in m/s, latitudes and widths (standard deviations) in degrees.
    """

    latitude: tuple[float, float] = (30.5, -41.0)
    width: tuple[float, float] = (9.5, 11.0)
    wind_800: tuple[float, float] = (6.0, 5.0)
    shear_500_800: tuple[float, float] = (23.5, 16.5)
    shear_200_500: tuple[float, float] = (33.0, 21.5)
    wave_ratio: tuple[float, float, float] = (1.5, 1.0, 0.4)
    """Strength of the wave at 200, 500, 800 hPa relative to the table."""
    centres: tuple[Centre, ...] = CENTRES
