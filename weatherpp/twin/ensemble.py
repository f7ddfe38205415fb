"""Truth, analysis cycle and forecasts of one block of years, integrated side by side.

The truth does not depend on the forecasts: a thread of its own integrates it some dates ahead. Each
of the two threads computes on one core (:func:`single_threaded`): the operations are so small that
sharing each of them between cores gains little on an idle machine, and on a busy one the cores wait
for each other most of the time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from weatherpp.twin import settings
from weatherpp.twin.forcing import F_MIDDLE, GRAVITY, reference_streamfunction, set_source
from weatherpp.twin.model import QGModel
from weatherpp.twin.settings import Cycle
from weatherpp.twin.spectral import Transform

CPU_BATCH = {21: 50, 42: 25}
"""States integrated together on a CPU, by truncation: the fastest of those measured."""


AHEAD = 10
"""Dates by which the truth may be ahead of the forecasts."""


@contextmanager
def single_threaded() -> Iterator[None]:
    """Torch computes on one core for each thread that calls it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def build_models(device: torch.device | str) -> tuple[QGModel, QGModel]:
    """The truth model and the forecast model, each with its source."""
    models = QGModel(settings.TRUTH, device), QGModel(settings.FORECAST, device)
    for model in models:
        set_source(model, settings.REFERENCE)
    return models


def run_batched(model: QGModel, psi: Tensor, hours: float) -> Tensor:
    """Integrate streamfunctions, spectral layout + (3, batch), in blocks that suit the device."""
    size = psi.shape[-1]
    if psi.device.type == "cpu":
        blocks = -(-size // CPU_BATCH.get(model.parameters.truncation, 16))
        size = -(-size // blocks)
    parts = [
        model.streamfunction(model.run(model.vorticity(part.contiguous()), hours))
        for part in torch.split(psi, size, dim=-1)
    ]
    return torch.cat(parts, dim=-1)


class Noise:
    """Random streamfunctions with the structure of an observation error.

    One independent random stream for each year, so that a year does not depend on how many others
    are made. Amplitude by total wavenumber ``exp(-((n - peak) / width)**2 / 2)``, isotropic, with a
    given correlation between levels, scaled to 1 m rms of ``f psi / g`` at 500 hPa.
    """

    def __init__(self, transform: Transform, cycle: Cycle, seeds: list[int]) -> None:
        self.transform = transform
        self.generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        shape = torch.exp(
            -0.5 * ((transform.n - cycle.peak_wavenumber) / cycle.wavenumber_width) ** 2
        )
        shape = shape * transform.mask * (transform.n > 0)
        norm = transform.mean_square(shape) ** -0.5
        ratio = shape.new_tensor(cycle.level_ratio)
        self._scale = (shape * norm * (GRAVITY / F_MIDDLE))[..., None] * ratio
        self._common = float(np.sqrt(cycle.level_correlation))
        self._own = float(np.sqrt(1.0 - cycle.level_correlation))

    def draw(self, members: int) -> Tensor:
        """Noise of shape spectral + (3, years * members), years outermost."""
        draws = []
        for generator in self.generators:
            white = torch.randn(members, 4, *self.transform.shape, generator=generator)
            draws.append(self._common * white[:, :1] + self._own * white[:, 1:])
        noise = torch.stack(draws).flatten(0, 1).to(self._scale)
        return noise.movedim((0, 1), (-1, -2)) * self._scale[..., None]


@dataclass
class Truth:
    """The truth of one initial date of a block."""

    initial: Tensor
    """Streamfunction on T42 at the initial date, spectral + (3, year)."""
    truncated: list[Tensor]
    """On T21, for each step, spectral + (3, year)."""


def ahead(truths: Iterator[Truth], depth: int = AHEAD) -> Iterator[Truth]:
    """The same items, made by another thread before they are asked for."""

    def following() -> Truth | None:
        with torch.inference_mode():  # a setting of each thread
            return next(truths, None)

    with ThreadPoolExecutor(1, "truth") as pool:
        try:
            pending = deque(pool.submit(following) for _ in range(depth))
            while (truth := pending.popleft().result()) is not None:
                pending.append(pool.submit(following))
                yield truth
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def stream_seed(seed: int, year: int, stream: int = 0) -> int:
    """Seed of one of a year's random streams, independent of which other years are made."""
    return int(np.random.SeedSequence([seed, year, stream]).generate_state(1, np.uint64)[0] >> 1)


@dataclass
class Output:
    """Streamfunctions (m2 s-1) on T21, spectral layout first, of one initial date of a block."""

    date: int
    forecast: Tensor
    """spectral + (3, step, year, member)."""
    truth: Tensor
    """spectral + (3, step, year)."""
    limit: dict[int, Tensor]
    """Index of the year -> spectral + (3, step, member), where this date is wanted."""


class Block:
    """A block of years: truths, analyses and forecasts, date after date.

    Parameters
    ----------
    years
        The calendar years; each is an independent realisation.
    seed, members
        As in :class:`weatherpp.twin.settings.TwinConfig`.
    device
        Where to integrate.
    steps
        Lead times in hours; the second analysis is at one of them.
    """

    def __init__(
        self,
        years: list[int],
        seed: int,
        members: int,
        device: torch.device | str,
        steps: tuple[int, ...] = settings.STEP_HOURS,
    ) -> None:
        self.years, self.seed, self.members, self.steps = years, seed, members, steps
        self.truth, self.model = build_models(device)
        self._perfect: QGModel | None = None
        self.cycle = settings.CYCLE
        seeds = [stream_seed(seed, year) for year in years]
        self.noise = Noise(self.model.transform, self.cycle, seeds)
        t = self.model.transform
        self._keep = (
            self.cycle.keep_large
            + (self.cycle.keep_small - self.cycle.keep_large) * (t.n / t.truncation) ** 2
        )

    def truncated(self, psi: Tensor) -> Tensor:
        """A truth on the spectral resolution of the forecast model."""
        return self.model.transform.resample(psi, self.truth.transform)

    def spin_up(self) -> Tensor:
        """Independent states, one for each year: noise, grown at T21."""
        reference = reference_streamfunction(self.model.transform, settings.REFERENCE)
        psi = 0.8 * reference + 20.0 * self.noise.draw(1)
        return run_batched(self.model, psi, 24 * settings.SPINUP_COARSE_DAYS)

    def truths(self, psi: Tensor, dates: int) -> Iterator[Truth]:
        """Spin up at T42 from states at T21, then the truth of one date after another."""
        psi = self.truth.transform.resample(psi, self.model.transform)
        psi = run_batched(self.truth, psi, 24 * settings.SPINUP_DAYS)
        for _ in range(dates):
            initial, truncated = psi, [self.truncated(psi)]
            for start, stop in zip(self.steps, self.steps[1:], strict=False):
                psi = run_batched(self.truth, psi, stop - start)
                truncated.append(self.truncated(psi))
            yield Truth(initial, truncated)
            psi = run_batched(self.truth, psi, settings.INTERVAL_HOURS - self.steps[-1])

    def analyse(self, background: Tensor, truth: Tensor) -> Tensor:
        """Analysis of all members; see :class:`weatherpp.twin.settings.Cycle`.

        Parameters
        ----------
        background
            Members of all years, spectral + (3, years * members), member 0 first in each year.
        truth
            Truncated truth, spectral + (3, years).
        """
        years, members = len(self.years), self.members
        observed = truth + self.cycle.observation_error * self.noise.draw(1)
        own = self.cycle.perturbation * self.noise.draw(members)
        own = torch.unflatten(own, -1, (years, members))
        own[..., 0] = 0.0
        target = (observed[..., None] + own).flatten(-2)
        keep = self._keep[..., None, None]
        return target + keep * (background - target)

    def dates(
        self, count: int, limit: dict[int, list[int]], limit_members: int
    ) -> Iterator[Output]:
        """Spin up, cycle, and yield each initial date.

        Parameters
        ----------
        count
            Initial dates to yield.
        limit
            Initial date -> indices of the years, for the dates of the perfect-model limit.
        limit_members
            Members of the limit.
        """
        second = self.steps.index(self.cycle.second_hours)
        rest = settings.INTERVAL_HOURS - self.cycle.second_hours
        warmup = self.cycle.warmup_dates
        background: Tensor | None = None
        for date, truth in enumerate(
            ahead(self.truths(self.spin_up(), warmup + count)), start=-warmup
        ):
            if background is None:
                background = truth.truncated[0].repeat_interleave(self.members, dim=-1)
            analysis = self.analyse(background, truth.truncated[0])
            perfect = {
                year: self._limit(date, analysis, truth.initial, year, limit_members)
                for year in limit.get(date, [])
            }
            states = [analysis]
            for start, stop in zip(self.steps, self.steps[1:], strict=False):
                states.append(self.forecast(states[-1], stop - start))
            if date >= 0:
                years = (len(self.years), self.members)
                forecast = torch.unflatten(torch.stack(states, dim=6), -1, years)
                yield Output(date, forecast, torch.stack(truth.truncated, dim=6), perfect)
            background = self.forecast(self.analyse(states[second], truth.truncated[second]), rest)

    def forecast(self, psi: Tensor, hours: int) -> Tensor:
        """Integrate all members, the perturbed ones with stochastic forcing.

        Every ``stochastic_hours`` a random streamfunction is added, with the structure of
        :class:`Noise` times the local wind speed relative to its global rms: a much simplified
        stochastic backscatter (Shutts 2005), strongest where the flow loses most to diffusion.
        """
        interval = self.cycle.stochastic_hours
        size = self.cycle.stochastic * np.sqrt(interval / 24.0)
        for _ in range(0, hours, interval):
            psi = run_batched(self.model, psi, interval)
            kick = torch.unflatten(self._kick(psi), -1, (len(self.years), self.members))
            kick[..., 0] = 0.0
            psi = psi + size * kick.flatten(-2)
        return psi

    def _kick(self, psi: Tensor) -> Tensor:
        transform = self.model.transform
        noise = self.noise.draw(self.members)
        u_cos, v_cos, pattern = transform.winds_and(psi, noise, scratch=True)
        speed = (u_cos**2 + v_cos**2).sqrt_()
        speed /= (speed**2).mean(dim=(0, 1, 2)).sqrt()
        kick = transform.analysis(speed.mul_(pattern))
        kick[0, 0, 0, 0, 0] = 0.0
        return kick * transform.expand(transform.mask, kick)

    def _limit(self, date: int, analysis: Tensor, truth: Tensor, year: int, count: int) -> Tensor:
        """Perfect-model ensemble from the same analysis error, spectral + (3, step, member).

        Members are the control analysis, with the truth's scales beyond T21, plus random Gaussian
        combinations of the cycled perturbations, scaled to the size of the analysis error.
        """
        if self._perfect is None:
            # the truth model itself, and its scratch memory, belong to the thread of the truth
            self._perfect = build_models(truth.device)[0]
        split = (len(self.years), self.members)
        members = torch.unflatten(analysis, -1, split)[..., year, :]
        perturbed = members[..., 1:] - members[..., 1:].mean(dim=-1, keepdim=True)
        # A stream of its own: the forecasts must not depend on whether a limit is made.
        generator = torch.Generator().manual_seed(
            stream_seed(self.seed, self.years[year], date + 1)
        )
        weights = torch.randn(self.members - 1, count, generator=generator).to(perturbed)
        weights *= settings.LIMIT_SCALING / np.sqrt(max(self.members - 2, 1))
        error = members[..., :1] - self.truncated(truth[..., year : year + 1])
        change = self.truth.transform.resample(error + perturbed @ weights, self.model.transform)
        states = [truth[..., year : year + 1] + change]
        for start, stop in zip(self.steps, self.steps[1:], strict=False):
            states.append(run_batched(self._perfect, states[-1], stop - start))
        return self.truncated(torch.stack(states, dim=6))
