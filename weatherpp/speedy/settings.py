"""What a SPEEDY archive is made of: the user's configuration and the fixed parameters."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from pydantic import Field

from weatherpp.strict import Strict

YEARS = {"small": 3, "full": 5}
DATES_PER_YEAR = {"small": 10, "full": 24}
MEMBERS = {"small": 5, "full": 10}
TRUNCATION = {"small": 21, "full": 31}
LEVELS = (500, 850)
"""Pressure levels of the archive, hPa."""


class SpeedyConfig(Strict):
    """Configuration of a SPEEDY archive; what is None depends on the size.

    ``small`` is 3 years of 10 initial dates with 5 members at T21, ``full`` 5 years of 24 dates
    with 10 members at T31. The same configuration gives the same archive on the same machine.
    """

    size: Literal["small", "full"] = "small"
    seed: int = Field(default=1, ge=0)
    years: int | None = Field(default=None, ge=1, le=50)
    dates_per_year: int | None = Field(default=None, ge=1, le=104)
    members: int | None = Field(default=None, ge=3, le=100)
    first_year: int = Field(default=2001, ge=1971, le=2050)
    truncation: Literal[21, 31] | None = None

    @property
    def number_of_years(self) -> int:
        """Years with the default of the size filled in."""
        return self.years if self.years is not None else YEARS[self.size]

    @property
    def number_of_dates(self) -> int:
        """Initial dates in each year."""
        return DATES_PER_YEAR[self.size] if self.dates_per_year is None else self.dates_per_year

    @property
    def number_of_members(self) -> int:
        """Members of each forecast, the control included."""
        return self.members if self.members is not None else MEMBERS[self.size]

    @property
    def wavenumbers(self) -> int:
        """Triangular truncation of truth and forecast."""
        return self.truncation if self.truncation is not None else TRUNCATION[self.size]

    def content(self) -> dict[str, Any]:
        """All of it that decides an archive, with the defaults filled in."""
        return {
            "seed": self.seed,
            "years": self.number_of_years,
            "dates_per_year": self.number_of_dates,
            "members": self.number_of_members,
            "first_year": self.first_year,
            "truncation": self.wavenumbers,
        }


@dataclass(frozen=True)
class Cycle:
    """The analysis cycle, the same much simplified ensemble of data assimilations as the twin's.

    At every analysis each member is pulled towards the truth plus an error that all members share;
    perturbed members add one of their own. In spectral space, for total wavenumber n::

        x_m = keep(n) b_m + (1 - keep(n)) (truth + e + e_m),   e_0 = 0
        keep(n) = keep_large + (keep_small - keep_large) (n / N)**2

    Errors are scaled differences of two true states of the weeks before, drawn at random: random
    field perturbations (Magnusson, Nycander and Källén 2009, doi:10.1111/j.1600-0870.2008.00385.x),
    which are balanced and larger where the weather varies more.
    """

    keep_large: float = 0.5
    keep_small: float = 0.7
    observation_error: float = 0.12
    """Factor on the differences that make the shared error ``e``."""
    perturbation: float = 0.25
    """Factor on the differences that make the members' own errors ``e_m``."""
    library: int = 8
    """True states that differences are drawn from, one from each interval between dates."""
    second_hours: int = 48
    """The analyses are at the initial dates and this many hours after them."""
    warmup_dates: int = 2
    """Dates cycled before the first one that is kept."""


FORECAST: dict[str, dict[str, float]] = {
    "convection": {"trcnv": 9.0, "rhbl": 0.85, "entmax": 0.4},
    "condensation": {"trlsc": 6.0, "rhlsc": 0.88},
    "surface_flux": {"cdl": 1.8e-3, "cds": 0.8e-3, "chl": 1.0e-3, "chs": 1.05e-3},
    "shortwave_radiation": {"albcl": 0.38, "ablcl1": 10.0},
    "vertical_diffusion": {"trshc": 9.0, "redshc": 0.7},
}
"""Parameters of the forecast model that are not SPEEDY's own, which the truth has."""
CYCLE = Cycle()
SPINUP_DAYS = 20
"""From rest, before the first state that differences are drawn from."""
NOISE = 1.0
"""rms of the temperature noise that sets off the spin-up, K."""


def all_parameters() -> dict[str, Any]:
    """Every fixed parameter, for the attributes of the archive."""
    return {
        "forecast": FORECAST,
        "cycle": asdict(CYCLE),
        "spinup_days": SPINUP_DAYS,
        "noise": NOISE,
        "levels": list(LEVELS),
    }
