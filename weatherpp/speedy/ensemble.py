"""Truth, analysis cycle and forecasts of one year, date after date."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from weatherpp.files import partial_name
from weatherpp.speedy import settings
from weatherpp.speedy.model import Array, Speedy, States
from weatherpp.twin.settings import INTERVAL_HOURS, STEP_HOURS

DAY, HALF_DAY = 24, 12
Fields: TypeAlias = dict[str, Array]
"""Variables of the archive by name, with all lead times: (step, ...)."""


@dataclass
class Progressed:
    """How far a year has come: all that its next date depends on."""

    date: int
    """Of the next date, counted from 0; dates of the warm-up are negative."""
    truth: States
    """The true state at that date, one."""
    rain: Array
    """True rain of the day before, m, (1, latitude, longitude)."""
    background: States
    """Short forecasts of all members for that date."""
    library: States
    """True states of the weeks before, the oldest first."""

    def save(self, path: Path) -> None:
        """Write it so that the name shows it only when whole."""
        parts = {"truth": self.truth, "background": self.background, "library": self.library}
        arrays: dict[str, NDArray[Any]] = {"date": np.array(self.date), "rain": self.rain}
        for part, states in parts.items():
            arrays |= {f"{part}.{name}": value for name, value in states.items()}
        with partial_name(path) as partial, partial.open("wb") as stream:
            np.savez(stream, allow_pickle=False, **arrays)

    @classmethod
    def load(cls, path: Path) -> Progressed:
        """What :meth:`save` wrote."""
        with np.load(path, allow_pickle=False) as saved:
            arrays = {key: saved[key] for key in saved.files}
        parts: dict[str, States] = {"truth": {}, "background": {}, "library": {}}
        for key, value in arrays.items():
            part, _, name = key.partition(".")
            if name:
                parts[part][name] = value
        return cls(date=int(arrays["date"]), rain=arrays["rain"], **parts)


@dataclass
class Output:
    """Fields of one initial date on the archive's grid."""

    date: int
    forecast: Fields
    """(step, member, ...)."""
    truth: Fields
    """(step, ...)."""


class Year:
    """One year: its truth, analyses and forecasts.

    Parameters
    ----------
    model
        Truth and forecasts are integrated with it, with other physics.
    start
        The first initial date.
    seed
        Random streams of this year, independent of which others are made.
    members
        Of each forecast, the control included.
    """

    def __init__(self, model: Speedy, start: np.datetime64, seed: list[int], members: int) -> None:
        self.model, self.start, self.seed, self.members = model, start, seed, members
        self.true, self.imperfect = model.standard, model.physics(settings.FORECAST)
        cycle = settings.CYCLE
        share = (model.wavenumber / model.truncation) ** 2
        keep = cycle.keep_large + (cycle.keep_small - cycle.keep_large) * share
        self._keep = keep.astype(np.float32)

    def time(self, date: int) -> np.datetime64:
        """Initial date by its number."""
        return self.start + np.timedelta64(date * INTERVAL_HOURS, "h")

    def spin_up(self) -> Progressed:
        """From rest to the first date of the warm-up, its library filled."""
        cycle = settings.CYCLE
        first = -cycle.warmup_dates
        date = first - cycle.library
        seed = int(np.random.SeedSequence([*self.seed, 0]).generate_state(1)[0])
        state = self.model.at_rest(seed, settings.NOISE)
        days = settings.SPINUP_DAYS
        for day in range(days, 0, -1):
            begin = self.time(date) - np.timedelta64(day, "D")
            state, rain = self.model.run(state, self.true, begin, DAY)
        library = []
        for number in range(date, first):
            library.append(state)
            state, rain = self._on(self.true, state, self.time(number), INTERVAL_HOURS)
        repeated = {name: np.repeat(value, self.members, axis=0) for name, value in state.items()}
        together = {name: np.concatenate([each[name] for each in library]) for name in state}
        return Progressed(first, state, rain, repeated, together)

    def next(self, at: Progressed) -> tuple[Output, Progressed]:
        """One initial date: its fields, and where the next one begins."""
        time, second = self.time(at.date), settings.CYCLE.second_hours
        later, rest = time + np.timedelta64(second, "h"), INTERVAL_HOURS - second
        assert second == STEP_HOURS[-1]
        random = np.random.default_rng([*self.seed, 1 + at.date + settings.CYCLE.warmup_dates])
        truths, true_fields = self._forecast(self.true, at.truth, time, at.rain)
        analysis = self.analyse(at.background, at.truth, at.library, random)
        unknown = np.full_like(at.rain, np.nan)  # of the day before, in a forecast
        states, fields = self._forecast(self.imperfect, analysis, time, unknown)
        output = Output(at.date, fields, {name: each[:, 0] for name, each in true_fields.items()})
        update = self.analyse(states, truths, at.library, random)
        background, _ = self._on(self.imperfect, update, later, rest)
        truth, rain = self._on(self.true, truths, later, rest)
        library = {
            name: np.concatenate([each[1:], at.truth[name]]) for name, each in at.library.items()
        }
        return output, Progressed(at.date + 1, truth, rain, background, library)

    def _on(
        self, physics: Any, states: States, time: np.datetime64, hours: int
    ) -> tuple[States, Array]:
        """States some hours on, and the rain of the last day."""
        early = HALF_DAY if hours % DAY else 0
        rain: Array | None = None
        if early:
            states, _ = self.model.run(states, physics, time, early)
        for start in range(early, hours, DAY):
            states, rain = self.model.run(states, physics, time + np.timedelta64(start, "h"), DAY)
        assert rain is not None
        return states, rain

    def _forecast(
        self, physics: Any, states: States, time: np.datetime64, rain: Array
    ) -> tuple[States, Fields]:
        """States at the last lead time, and fields at all, (step, state, ...).

        ``tp`` is the rain of the day before; ``rain`` is that before the start.
        """
        first = self.model.fields(states, time)
        steps = [first | {"tp": np.broadcast_to(rain, first["t2m"].shape)}]
        for start, stop in itertools.pairwise(STEP_HOURS):
            states, rain = self.model.run(
                states, physics, time + np.timedelta64(start, "h"), stop - start
            )
            fields = self.model.fields(states, time + np.timedelta64(stop, "h"))
            steps.append(fields | {"tp": rain})
        return states, {name: np.stack([each[name] for each in steps]) for name in steps[0]}

    def analyse(
        self, background: States, truth: States, library: States, random: np.random.Generator
    ) -> States:
        """Analysis of all members, see :class:`weatherpp.speedy.settings.Cycle`.

        Parameters
        ----------
        background
            Members, the control first.
        truth
            One state.
        library
            States that errors are drawn from.
        random
            Decides which.
        """
        cycle = settings.CYCLE
        pairs = [self._pair(random, len(library["pressure"])) for _ in range(self.members)]
        out: States = {}
        for name, value in background.items():
            error = np.stack([library[name][one] - library[name][two] for one, two in pairs])
            own = cycle.perturbation * error
            own[0] = 0.0
            target = truth[name] + cycle.observation_error * error[:1] + own
            out[name] = (target + self._keep * (value - target)).astype(np.float32)
        return out

    @staticmethod
    def _pair(random: np.random.Generator, count: int) -> NDArray[np.int64]:
        return random.choice(count, size=2, replace=False)
