"""What a twin archive is made of: the user's configuration and the fixed parameters."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from pydantic import Field

from weatherpp.strict import Strict
from weatherpp.twin.parameters import ModelParameters, Reference

YEARS = {"small": 5, "full": 20}
LIMIT_DATES = {"small": 0, "full": 50}
DATES_PER_YEAR = 105
INTERVAL_HOURS = 84
STEP_HOURS = (0, 24, 48)
BLOCK_YEARS = 10
"""Years integrated side by side; also the unit that is redone after an interruption."""


class TwinConfig(Strict):
    """Configuration of a twin archive.

    ``years`` None means 5 (small) or 20 (full), ``limit_dates`` None means 0 (small) or 50 (full).
    The same configuration gives the same archive on the same machine.
    """

    size: Literal["small", "full"] = "small"
    seed: int = Field(default=1, ge=0)
    years: int | None = Field(default=None, ge=1, le=200)
    dates_per_year: int | None = Field(default=None, ge=1, le=DATES_PER_YEAR)
    members: int = Field(default=10, ge=3, le=100)
    first_year: int = Field(default=2001, ge=1700, le=2050)
    limit_dates: int | None = Field(default=None, ge=0)
    limit_members: int = Field(default=50, ge=2, le=200)
    longest: Literal[48, 72] = Field(default=48, description="lead time, hours")
    device: Literal["auto", "cpu", "cuda"] = "auto"

    @property
    def number_of_years(self) -> int:
        """Years with the default of the size filled in."""
        return self.years if self.years is not None else YEARS[self.size]

    @property
    def number_of_dates(self) -> int:
        """Initial dates in each year."""
        return self.dates_per_year if self.dates_per_year is not None else DATES_PER_YEAR

    @property
    def steps(self) -> tuple[int, ...]:
        """Lead times in hours."""
        return (*STEP_HOURS, *([self.longest] if self.longest > STEP_HOURS[-1] else []))

    @property
    def number_of_limit_dates(self) -> int:
        """Dates of the perfect-model limit, at most all dates there are."""
        wanted = self.limit_dates if self.limit_dates is not None else LIMIT_DATES[self.size]
        return min(wanted, self.number_of_years * self.number_of_dates)


@dataclass(frozen=True)
class Cycle:
    """The analysis cycle: a much simplified ensemble of data assimilations.

    At every analysis each member is pulled towards the truth plus an observation error that all
    members share; perturbed members add an observation error of their own. In spectral space, for
    total wavenumber n::

        x_m = keep(n) b_m + (1 - keep(n)) (truth + e + e_m),   e_0 = 0
        keep(n) = keep_large + (keep_small - keep_large) (n / N)**2
    """

    keep_large: float = 0.35
    keep_small: float = 0.7
    observation_error: float = 10.0
    """rms of the shared error ``e`` at 500 hPa, m of geopotential height (at 45 degrees)."""
    perturbation: float = 13.0
    """rms of the members' own errors ``e_m``, m."""
    peak_wavenumber: float = 9.0
    wavenumber_width: float = 5.0
    level_ratio: tuple[float, float, float] = (1.3, 1.0, 0.8)
    """rms of the errors at 200, 500, 800 hPa relative to 500 hPa."""
    level_correlation: float = 0.7
    """Correlation of the errors between levels."""
    stochastic: float = 7.5
    """Stochastic forcing of the perturbed members, m of 500 hPa height for each root of a day."""
    stochastic_hours: int = 12
    """Hours between the kicks of the stochastic forcing."""
    second_hours: int = 48
    """The analyses are at the initial dates and this many hours after them."""
    warmup_dates: int = 4
    """Dates cycled before the first one that is kept."""


TRUTH = ModelParameters(
    truncation=42, nlon=128, steps_per_day=18, relax_days=20.0, ekman_days=3.0, ekman_land=1.0,
    ekman_mountain=1.5, diffusion_days=0.15,
)  # fmt: skip
FORECAST = ModelParameters(
    truncation=21, nlon=64, steps_per_day=8, relax_days=22.0, ekman_days=3.5, ekman_land=0.7,
    ekman_mountain=1.0, diffusion_days=0.3, orography=0.9, orography_smoothing=0.5,
)  # fmt: skip
REFERENCE = Reference()
CYCLE = Cycle()
SPINUP_COARSE_DAYS = 40
SPINUP_DAYS = 15
LIMIT_SCALING = 1.2
"""Factor from the spread of the cycled members to the size of the analysis error."""


def all_parameters() -> dict[str, Any]:
    """Every fixed parameter, for the attributes of the archive."""
    return {
        "truth": asdict(TRUTH),
        "forecast": asdict(FORECAST),
        "reference": asdict(REFERENCE),
        "cycle": asdict(CYCLE),
        "spinup_coarse_days": SPINUP_COARSE_DAYS,
        "spinup_days": SPINUP_DAYS,
        "limit_scaling": LIMIT_SCALING,
        "block_years": BLOCK_YEARS,
    }
