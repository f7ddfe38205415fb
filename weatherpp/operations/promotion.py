"""Whether a version that ran as a shadow is better than the current one, by what both scored."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from weatherpp.conventions import listed
from weatherpp.errors import ConfigError, WeatherppError
from weatherpp.operations import registry
from weatherpp.operations.cycles import FORMAT
from weatherpp.operations.ledger import Ledger, main_estimator
from weatherpp.operations.scoring import OWN, SHADOW
from weatherpp.operations.settings import Nightly, NightlyTarget
from weatherpp.verify.aggregate import Interval
from weatherpp.verify.gains import paired_gain


@dataclass(frozen=True)
class Verdict:
    """A candidate against the current version on the cycles that both were scored on.

    Attributes
    ----------
    target, current, candidate
        Names.
    gain
        1 - CRPS of the candidate / CRPS of the current version, with its interval, which is NaN
        if there are too few cycles for one.
    cycles
        How many.
    """

    target: str
    current: str
    candidate: str
    gain: Interval
    cycles: int

    @property
    def better(self) -> bool:
        """Whether the whole interval lies above zero."""
        return bool(self.gain.low > 0)

    def text(self) -> str:
        """In words."""
        pair = f"{self.target}: {self.candidate} against {self.current}"
        if not self.cycles:
            return f"{pair}: no cycle that both were scored on; run it as a shadow first"
        values = f"CRPS {100 * self.gain.value:.1f} % lower"
        if math.isnan(self.gain.low):
            return f"{pair}: {values} on {self.cycles} cycles, too few for an interval"
        low, high = 100 * self.gain.low, 100 * self.gain.high
        return f"{pair}: {values} [{low:.1f}, {high:.1f}] on {self.cycles} cycles"


def weigh(settings: Nightly, work: Path, folder: Path, candidate: str) -> Verdict:
    """Compare a version with the current one by the scores in the ledger.

    Parameters
    ----------
    settings, work
        Recipe and work folder of the nightly job.
    folder
        Registry; that of one target of the recipe.
    candidate
        Name of a version of it.

    Raises
    ------
    ConfigError
        There is no such version or target, or it is the current one.
    InputError
        There is no ledger.
    """
    target = _target_of(settings, folder)
    registry.named(folder, candidate)
    now = registry.current(folder).name
    if candidate == now:
        raise ConfigError(f"{folder}: {candidate} is the current version")
    with Ledger(work, there=True) as ledger:
        scores = ledger.scores()
    scores = scores[(scores["target"] == target.name) & (scores["score"] == "crps")]
    own, other = _series(scores, OWN, now), _series(scores, SHADOW, candidate)
    if not len(own.index.intersection(other.index)):
        nothing = Interval(math.nan, math.nan, math.nan)
        return Verdict(target.name, now, candidate, nothing, 0)
    bootstrap = settings.verify.bootstrap
    gain, cycles = paired_gain(other, own, bootstrap, settings.seed, root=False)
    return Verdict(target.name, now, candidate, gain, cycles)


def promote(
    settings: Nightly, work: Path, folder: Path, candidate: str, anyway: bool = False
) -> Verdict:
    """Make a version current if it is better, or ``anyway``.

    Raises
    ------
    WeatherppError
        It is not better, or that cannot be told as yet.
    ConfigError, InputError
        As for :func:`weigh` and :func:`weatherpp.operations.registry.use`.
    """
    verdict = weigh(settings, work, folder, candidate)
    if not verdict.better and not anyway:
        raise WeatherppError(
            f"{verdict.text()}; not promoted, as it is not surely better; --yes does it anyway"
        )
    registry.use(folder, candidate)
    return verdict


def _target_of(settings: Nightly, folder: Path) -> NightlyTarget:
    found = [
        target for target in settings.targets if Path(target.models).resolve() == folder.resolve()
    ]
    if len(found) != 1:
        known = listed(target.models for target in settings.targets)
        raise ConfigError(
            f"{folder}: is the registry of no target of the recipe; there are {known}"
        )
    return found[0]


def _series(scores: pd.DataFrame, method: str, version: str) -> pd.Series[float]:
    """CRPS by initial time of what a version made under the name of a method."""
    own = scores[(scores["method"] == method) & (scores["model"].str.startswith(f"{version}/"))]
    own = main_estimator(own) if len(own) else own
    times = pd.to_datetime(own["cycle"], format=FORMAT)
    return pd.Series(own["value"].to_numpy(dtype=float), pd.DatetimeIndex(times)).sort_index()
