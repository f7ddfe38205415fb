"""One SPEEDY model of many states at a time, and the fields of the archive from its states.

SPEEDY (Molteni 2003, doi:10.1007/s00382-002-0268-2) as the package ``jcm`` has it: spectral
primitive equations on eight sigma levels with simple physics, driven by the sea surface
temperature, sea ice, snow and soil moisture of the day of the year.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from importlib.resources import files
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import jax_datetime
import numpy as np
from dinosaur.primitive_equations import State
from flax import nnx
from jcm.date import DateData
from jcm.forcing import ForcingData
from jcm.model import Model
from jcm.physics.speedy.params import Parameters
from jcm.physics.speedy.speedy_coords import get_speedy_coords
from jcm.physics.speedy.speedy_terms import speedy_physics
from jcm.physics_interface import compute_physics_step_gridpoint
from jcm.terrain import TerrainData
from numpy.typing import NDArray

from weatherpp.conventions import GRAVITY
from weatherpp.errors import WeatherppError
from weatherpp.speedy.levels import to_pressure
from weatherpp.speedy.settings import LEVELS

Array: TypeAlias = NDArray[np.float32]
States: TypeAlias = dict[str, Array]
"""Spectral coefficients by name, each (state, ...); the last axis is the total wavenumber."""
Changes: TypeAlias = Mapping[str, Mapping[str, float]]
"""New values of parameters by scheme and name, as in ``jcm.physics.speedy.params``."""

EPOCH = np.datetime64("2001-01-01")
ALOFT = ("t", "z", "q", "u", "v")
THREADS = 2
"""States integrated at the same time."""
WATER = 1000.0
"""Density of water, kg m-3."""
SURFACE_PRESSURE = 1e5
"""The model's unit of surface pressure, Pa."""


class Speedy:
    """SPEEDY at one resolution, compiled once for all values of its physical parameters.

    Parameters
    ----------
    truncation
        Largest total wavenumber, 21 or 31.
    """

    def __init__(self, truncation: int) -> None:
        boundary = files("jcm.data.bc.t30.clim")
        self.truncation = truncation
        self.coords = get_speedy_coords(spectral_truncation=truncation)
        with warnings.catch_warnings():  # the package's way of using xarray
            warnings.simplefilter("ignore", FutureWarning)
            self.terrain = TerrainData.from_file(boundary / "terrain.nc", coords=self.coords)
            self.forcing = ForcingData.from_file(
                boundary / "forcing.nc", coords=self.coords, align_mode="wrap_year"
            )
        physics = speedy_physics(checkpoint_terms=False)
        self.model = Model(coords=self.coords, terrain=self.terrain, physics=physics)
        self.step_seconds = round(self.model.dycore.dt_seconds)
        self._graph, self.standard = nnx.split(physics)
        self._carry = self.model.initial_physics_carry()
        grid = self.coords.horizontal
        self.latitude = np.degrees(np.asarray(grid.latitudes, dtype=np.float64))[::-1]
        self.longitude = np.degrees(np.asarray(grid.longitudes, dtype=np.float64))
        self.wavenumber = np.asarray(grid.modal_axes[1], dtype=np.float64)

    def physics(self, changes: Changes) -> Any:
        """SPEEDY's physics with other parameters, for :meth:`run`."""
        default = Parameters.default()
        changed = {
            scheme: replace(
                getattr(default, scheme), **{name: jnp.array(new) for name, new in values.items()}
            )
            for scheme, values in changes.items()
        }
        physics = speedy_physics(replace(default, **changed), checkpoint_terms=False)
        physics.cache_coords(self.coords)
        physics.dt_seconds = float(self.step_seconds)
        return nnx.split(physics)[1]

    @cached_property
    def _run(self) -> Any:
        """:meth:`_advance` compiled, which takes half a minute, once for all numbers of steps."""
        example = _unpack(self.model.initial_state())
        return (
            jax.jit(self._advance)
            .lower(example, self.standard, _clock(EPOCH), jnp.int32(1))
            .compile()
        )

    @cached_property
    def _diagnose(self) -> Any:
        """:meth:`_diagnostics` compiled."""
        example = _unpack(self.model.initial_state())
        return jax.jit(self._diagnostics).lower(example, _clock(EPOCH)).compile()

    def at_rest(self, seed: int, noise: float) -> States:
        """One isothermal atmosphere at rest with random temperatures.

        Parameters
        ----------
        seed
            Of the noise.
        noise
            Its rms, K.
        """
        grid = self.coords.horizontal
        state = self.model.initial_state()
        shape = state.temperature_variation.shape[:1] + tuple(grid.nodal_shape)
        white = noise * np.random.default_rng(seed).standard_normal(shape)
        state.temperature_variation += grid.to_modal(jnp.asarray(white, dtype=jnp.float32))
        return {name: np.asarray(value)[None] for name, value in _unpack(state).items()}

    def run(
        self, states: States, physics: Any, start: np.datetime64, hours: int
    ) -> tuple[States, Array]:
        """Integrate states.

        Every call begins without memory of the steps before, so that its result depends on the
        states alone; a run in two parts differs a little from one in one.

        Returns
        -------
        The states after ``hours``, and the rain on the way, m, (state, latitude, longitude).

        Raises
        ------
        WeatherppError
            The model has blown up.
        """
        steps, rest = divmod(3600 * hours, self.step_seconds)
        assert not rest
        run, clock, count = self._run, _clock(start), jnp.int32(steps)
        made = _each(lambda state: run(state, physics, clock, count), states)
        after = {name: np.stack([state[name] for state, _ in made]) for name in states}
        if not all(np.isfinite(value).all() for value in after.values()):
            raise WeatherppError(
                f"SPEEDY has blown up between {start} and {hours} h later; take another seed"
            )
        return after, _north_first(np.stack([rain for _, rain in made]))

    def fields(self, states: States, time: np.datetime64) -> dict[str, Array]:
        """The variables of the archive but rain, at one moment.

        Returns
        -------
        dict of arrays, (state, latitude, longitude) or (state, level, latitude, longitude)
            ``t`` (K), ``z`` (m2 s-2), ``q`` (kg kg-1), ``u`` and ``v`` (m s-1) on :data:`LEVELS`;
            ``t2m`` (K) is the model's own near-surface temperature, extrapolated from its two
            lowest levels, ``u10`` and ``v10`` (m s-1) its near-surface wind, 0.95 of the lowest
            level's.
        """
        diagnose, clock = self._diagnose, _clock(time)
        made = _each(lambda state: diagnose(state, clock), states)
        values = {name: np.stack([one[name] for one in made]) for name in made[0]}
        sigma = np.asarray(self.coords.vertical.centers)[:, None, None]
        pressure = SURFACE_PRESSURE * values.pop("sp")[:, None] * sigma
        for name in ALOFT:
            values[name] = to_pressure(values[name], pressure, LEVELS, extend=name == "z")
        return {name: _north_first(value) for name, value in values.items()}

    def static(self) -> dict[str, Array]:
        """Height of the surface in m as the model's truncation has it, and fraction of land."""
        height = np.asarray(self.terrain.phis0) / GRAVITY
        return {"orog": _north_first(height), "lsm": _north_first(self.terrain.fmask)}

    def _tendency(
        self, state: Any, parameters: Any, carry: Any, clock: Any, step: Any
    ) -> tuple[Any, Any]:
        """Tendency of the physics at a moment, and what the physics says and remembers."""
        tendency, carry = compute_physics_step_gridpoint(
            self.model.dycore.to_physics_state(state),
            self.forcing.select(DateData(clock, step, self.step_seconds)),
            self.terrain,
            carry,
            physics=nnx.merge(self._graph, parameters),
            time_step=float(self.step_seconds),
        )
        return tendency, carry

    def _advance(self, values: Any, physics: Any, clock: Any, steps: Any) -> tuple[Any, Any]:
        """One state, ``steps`` time steps on; and its rain in m."""
        length = jax_datetime.Timedelta(seconds=jnp.int32(self.step_seconds))

        def body(step: Any, loop: Any) -> Any:
            state, carry, now, rain = loop
            tendency, carry = self._tendency(state, physics, carry, now, step)
            state = self.model.dycore.step(state, tendency)
            rain = rain + carry["surface_exchange"].precipitation * (self.step_seconds / WATER)
            return state, carry, now + length, rain

        rain = jnp.zeros(self.terrain.orog.shape, dtype=jnp.float32)
        begin = (pack(values), self._carry, clock, rain)
        state, _, _, rain = jax.lax.fori_loop(0, steps, body, begin)
        return _unpack(state), rain

    def _diagnostics(self, values: Any, clock: Any) -> dict[str, Any]:
        """Fields on model levels and near the surface, and surface pressure in its unit."""
        state = pack(values)
        grid = self.model.dycore.to_physics_state(state)
        _, said = self._tendency(state, self.standard, self._carry, clock, jnp.int32(0))
        near = said["_surface_flux"]
        return {
            "t": grid.temperature,
            "z": grid.geopotential,
            "q": jnp.maximum(grid.specific_humidity, 0.0),
            "u": grid.u_wind,
            "v": grid.v_wind,
            "sp": grid.normalized_surface_pressure,
            "t2m": near.t0,
            "u10": near.u0,
            "v10": near.v0,
        }


def _each(function: Callable[[States], Any], states: States) -> list[Any]:
    """The function of one state after the other, two at a time, as arrays of numpy."""
    count = len(next(iter(states.values())))
    single = [{name: value[i] for name, value in states.items()} for i in range(count)]
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(lambda state: jax.tree.map(np.asarray, function(state)), single))


def _clock(time: np.datetime64) -> Any:
    return jax_datetime.to_datetime(str(time.astype("datetime64[s]")))


def pack(values: Any) -> Any:
    """A state of the dynamics from its coefficients by name."""
    return State(
        vorticity=values["vorticity"],
        divergence=values["divergence"],
        temperature_variation=values["temperature"],
        log_surface_pressure=values["pressure"],
        tracers={"specific_humidity": values["humidity"]},
        sim_time=jnp.float32(0.0),
    )


def _unpack(state: Any) -> dict[str, Any]:
    return {
        "vorticity": state.vorticity,
        "divergence": state.divergence,
        "temperature": state.temperature_variation,
        "pressure": state.log_surface_pressure,
        "humidity": state.tracers["specific_humidity"],
    }


def _north_first(values: Any) -> Array:
    """(..., longitude, latitude from the south) -> (..., latitude from the north, longitude)."""
    out = np.moveaxis(np.asarray(values, dtype=np.float32), -1, -2)[..., ::-1, :]
    return np.ascontiguousarray(out)
