"""From a canonical forecast to samples for networks: predictors, grid, tiles, batches."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
import xarray as xr
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from weatherpp.conventions import exists_on, grid_dims
from weatherpp.data.chunks import Fields, choose_fields, known, own_levels
from weatherpp.errors import InputError
from weatherpp.methods.neural.networks.padding import Topology

Kind = Literal["mean", "spread", "control", "members"]
Batch = dict[str, Tensor]
# read together: enough to keep all cores busy, few enough to spare memory
DATES_AT_ONCE = 70


@dataclass(frozen=True)
class Block:
    """Predictors of one variable: all kinds x members x lead times x levels.

    Attributes
    ----------
    variable, levels, hours, kinds
        What to take; ``levels`` is empty for a variable without levels, ``hours`` are lead times.
    members
        Numbers of the members to take one by one (kind ``members``).
    """

    variable: str
    levels: tuple[int, ...]
    hours: tuple[float, ...]
    kinds: tuple[Kind, ...]
    members: tuple[int, ...] = ()

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Block:
        """Undo ``dataclasses.asdict`` and JSON, which turns tuples into lists."""
        lists = {key: tuple(content[key]) for key in ("levels", "hours", "kinds", "members")}
        return cls(content["variable"], **lists)

    @property
    def fields(self) -> tuple[str, tuple[int, ...], tuple[float, ...]]:
        """Variable, levels and lead times, without the statistics or members taken of them."""
        return self.variable, self.levels, self.hours

    @property
    def names(self) -> list[str]:
        """Names such as ``spread:z500@48h``, in the order of :func:`assemble`."""
        layers: list[str] = [kind for kind in self.kinds if kind != "members"]
        layers += [f"member{number}" for number in self.members]
        return [f"{layer}:{name}" for layer in layers for name in Fields(*self.fields).names]


def plane(field: xr.DataArray | xr.Dataset) -> tuple[str, str]:
    """The two grid dimensions, rows first.

    Raises
    ------
    InputError
        There is no two-dimensional grid (station data, for example).
    """
    dims = grid_dims(field)
    if len(dims) != 2:
        remedy = "; method drn is for stations" if "station" in field.dims else ""
        raise InputError(
            "networks need a grid (latitude, longitude or y, x); the data have the dimensions "
            f"{', '.join(str(dim) for dim in field.dims)}{remedy}"
        )
    return dims[0], dims[1]


def topology_of(field: xr.DataArray) -> Topology:
    """How the edges of the field's grid are joined, told from its coordinates."""
    rows, columns = plane(field)
    if rows != "latitude" or field.sizes[columns] < 2 or field.sizes[rows] < 2:
        return Topology()
    longitude, latitude = field[columns].values, field[rows].values
    step = (longitude[-1] - longitude[0]) / (len(longitude) - 1)
    periodic = bool(abs(longitude[-1] + step - longitude[0] - 360) < 0.1 * step)
    spacing = abs(latitude[-1] - latitude[0]) / (len(latitude) - 1)
    gap = 90 - min(abs(latitude[0]), abs(latitude[-1]))
    poles = periodic and latitude[0] * latitude[-1] < 0 and gap < spacing
    return Topology(periodic, bool(poles), bool(poles and gap < 0.25 * spacing))


def area_weights(field: xr.DataArray) -> NDArray[np.float64]:
    """Weights of grid points, shape (rows, columns), mean 1: cos(latitude), or all 1 on a
    projected grid, whose cells are of one size."""
    rows, columns = plane(field)
    weights = np.ones((field.sizes[rows], field.sizes[columns]))
    if rows == "latitude":
        weights *= np.cos(np.deg2rad(field[rows].values.astype(float))).clip(0)[:, None]
    out: NDArray[np.float64] = weights / weights.mean()
    return out


def plan(
    forecast: xr.Dataset,
    kinds: Sequence[Kind],
    variables: Sequence[str] = (),
    levels: Sequence[int] = (),
    lead_hours: Sequence[float] = (),
) -> list[Block]:
    """Which predictors to take from an archive; an empty choice means all.

    With a single member the kind ``spread`` is left out, and ``mean`` is that member.

    Raises
    ------
    InputError
        A chosen variable, level or lead time does not exist.
    """
    numbers = sorted(int(number) for number in forecast["number"].values)
    wanted = tuple(dict.fromkeys(k for k in kinds if k != "spread" or len(numbers) > 1))
    members = tuple(numbers) if "members" in wanted else ()
    chosen = choose_fields(forecast, variables, levels, lead_hours)
    blocks = [Block(*fields, wanted, members) for fields in chosen]
    blocks = [block for block in blocks if block.names]
    if not blocks:
        raise InputError("no predictors are left; check predictors, variables, levels and leads")
    return blocks


def _layers(forecast: xr.Dataset, block: Block) -> xr.DataArray:
    """One block, dims (time, predictor, rows, columns), float32, lazy if the forecast is."""
    known("variable", [block.variable], [str(name) for name in forecast.data_vars])
    field = forecast[block.variable].sortby("number")
    if "level" in field.dims:
        known(f"level of {block.variable}", block.levels, own_levels(field))
        field = field.sel(level=list(block.levels))
    else:
        field = field.expand_dims("level")
    known("lead time (hours)", block.hours, exists_on(field, "steps"))
    field = field.sel(step=pd.to_timedelta(list(block.hours), unit="h"))
    known("member", block.members, [int(number) for number in field["number"].values])
    if "spread" in block.kinds and field.sizes["number"] < 2:
        raise InputError("the model needs the members' spread; give at least two members")
    numbers = [int(number) for number in field["number"].values]
    core = ["step", "number", "level", *plane(field)]
    layers: xr.DataArray = xr.apply_ufunc(
        _reduce,
        field,
        kwargs={"kinds": block.kinds, "members": [numbers.index(n) for n in block.members]},
        input_core_dims=[core],
        output_core_dims=[["predictor", *plane(field)]],
        exclude_dims={"step", "number", "level"},
        dask="parallelized",
        dask_gufunc_kwargs={
            "allow_rechunk": True,
            "output_sizes": {"predictor": len(block.names)},
        },
        output_dtypes=[np.float32],
    )
    return layers.drop_vars([str(c) for c in layers.coords if c not in ("time", *plane(field))])


def _reduce(
    values: NDArray[Any], kinds: Sequence[Kind], members: Sequence[int]
) -> NDArray[np.float32]:
    """All layers of (time, step, number, level, rows, columns) in one pass over the members.

    Sums are taken in float64. Returns (time, predictor, rows, columns); see
    :attr:`Block.names` for the order.
    """
    layers: list[NDArray[Any]] = []
    for kind in kinds:
        if kind == "mean":
            layers.append(values.mean(axis=2, dtype=np.float64))
        elif kind == "spread":
            layers.append(values.std(axis=2, ddof=1, dtype=np.float64))
        elif kind == "control":
            layers.append(values[:, :, 0])
        else:
            layers += [values[:, :, at] for at in members]
    stack = np.stack(layers, axis=1).astype(np.float32)
    return stack.reshape(len(values), -1, *values.shape[-2:])


def assemble(forecast: xr.Dataset, blocks: Sequence[Block]) -> xr.DataArray:
    """Predictors in physical units.

    Parameters
    ----------
    forecast
        Canonical forecast with the dims time, number and step; members in any order.
    blocks
        From :func:`plan`.

    Returns
    -------
    Dims (time, predictor, rows, columns), float32, lazy if the forecast is.

    Raises
    ------
    InputError
        A variable, level, lead time or member is missing.
    """
    parts = [_layers(forecast, block) for block in blocks]
    out = xr.concat(parts, "predictor")
    return out.assign_coords(time=forecast["time"].values)


def in_memory(
    predictors: xr.DataArray, limit: float, cache: MutableMapping[str, Any] | None = None
) -> xr.DataArray:
    """Predictors read whole, a few dates after the other, if they fit; else as they are.

    Parameters
    ----------
    predictors
        From :func:`assemble`.
    limit
        Bytes that may be held, by one fit and, all in all, in the cache.
    cache
        Where fits to several targets leave each other what they read; dask names equal arrays
        equally. What was not asked for longest makes room.
    """
    if predictors.chunks is None or predictors.nbytes > limit:
        return predictors
    name = f"predictors {predictors.data.name}"
    if cache is not None and name in cache:
        values = cache[name] = cache.pop(name)  # the last to go
    else:
        if cache is not None:
            held = {key: each.nbytes for key, each in cache.items()}
            for key in list(held):
                if sum(held.values()) + predictors.nbytes > limit:
                    held.pop(key)
                    cache.pop(key)
        values = np.empty(predictors.shape, predictors.dtype)
        for start in range(0, len(values), DATES_AT_ONCE):
            part = slice(start, start + DATES_AT_ONCE)
            values[part] = predictors.data[part].compute()
        if cache is not None:
            cache[name] = values
    return predictors.copy(data=values)


def constant_fields(static: xr.Dataset, field: xr.DataArray) -> dict[str, NDArray[np.float32]]:
    """Predictors that do not change: static fields and the sine of latitude, standardised.

    Static fields on another grid than ``field`` are refused.
    """
    shape = tuple(field.sizes[dim] for dim in plane(field))
    fields = {str(name): np.asarray(each.values, float) for name, each in static.items()}
    if "latitude" in field.coords:
        latitude = np.asarray(field["latitude"].values, float)
        latitude = latitude[:, None] if latitude.ndim == 1 else latitude
        fields["sine of latitude"] = np.broadcast_to(np.sin(np.deg2rad(latitude)), shape)
    out = {}
    for name, values in fields.items():
        if values.shape != shape:
            raise InputError(f"static field {name} has the shape {values.shape}, not {shape}")
        values = np.nan_to_num(values - np.nanmean(values))
        out[name] = (values / (values.std() or 1.0)).astype(np.float32)
    return out


class Samples(Dataset[Batch]):
    """Dates as samples, map-style; whole batches are fetched at once.

    Parameters
    ----------
    predictors
        From :func:`assemble`; read date by date if lazy, from memory if loaded.
    mean, std
        Standardisation, shape (predictor, rows, columns), float32. What is not finite becomes 0
        after standardisation, the mean.
    constant
        Constant predictors, shape (fields, rows, columns), float32; may hold no field.
    dated
        Further tensors whose first dimension is the date and whose last two are the grid;
        ``extra`` (date, fields, rows, columns) is joined to the predictors.
    """

    def __init__(
        self,
        predictors: xr.DataArray,
        mean: NDArray[np.float32],
        std: NDArray[np.float32],
        constant: NDArray[np.float32],
        dated: Mapping[str, Tensor],
    ):
        self.predictors = predictors.variable
        self.mean, self.scale = torch.from_numpy(mean), torch.from_numpy(1 / std)
        self.constant = torch.from_numpy(constant)
        self.dated = dict(dated)
        self.extra = self.dated.pop("extra", None)
        self.tile, self.tiles = 0, 1
        self.corners = torch.empty(0, 2)
        self.ready: Tensor | None = None
        if predictors.chunks is None:
            self.ready = self._channels(list(range(predictors.sizes["time"])))

    def cut(self, tile: int, tiles: int) -> None:
        """Give random squares of ``tile`` points, ``tiles`` of each date an epoch; 0 for whole
        fields."""
        self.tile, self.tiles = tile, tiles if tile else 1
        self.reseed(0)

    def reseed(self, seed: int) -> None:
        """Decide where the squares of each sample lie."""
        generator = torch.Generator().manual_seed(seed)
        self.corners = torch.rand(len(self), 2, generator=generator)

    def __len__(self) -> int:
        return int(self.predictors.sizes["time"]) * self.tiles

    def __getitem__(self, index: int) -> Batch:
        return {name: value[0] for name, value in self.__getitems__([index]).items()}

    def _channels(self, dates: list[int]) -> Tensor:
        """All channels of some dates, standardised; filled date by date to spare memory."""
        extra = 0 if self.extra is None else self.extra.shape[1]
        count, shape = len(self.mean), self.constant.shape
        out = torch.empty(len(dates), count + extra + shape[0], *shape[1:])
        for row, date in zip(out, dates, strict=True):
            raw = torch.from_numpy(np.asarray(self.predictors[date].data, np.float32))
            row[:count] = torch.nan_to_num((raw - self.mean) * self.scale, 0.0, 0.0, 0.0)
            if self.extra is not None:
                row[count : count + extra] = self.extra[date]
            row[count + extra :] = self.constant
        return out

    def __getitems__(self, indices: list[int]) -> Batch:
        """Batch ``x`` (sample, channel, rows, columns) and all ``dated`` tensors."""
        dates = [index % self.predictors.sizes["time"] for index in indices]
        batch = {name: value[dates] for name, value in self.dated.items()}
        batch["x"] = self._channels(dates) if self.ready is None else self.ready[dates]
        return self._cut(batch, indices) if self.tile else batch

    def _cut(self, batch: Batch, indices: list[int]) -> Batch:
        """The same square out of all tensors of each sample."""
        height, width = batch["x"].shape[-2:]
        high, wide = min(self.tile, height), min(self.tile, width)
        room = torch.tensor([height - high + 1, width - wide + 1])
        top, left = (self.corners[indices] * room).long().T.tolist()
        return {
            name: torch.stack(
                [
                    each[..., t : t + high, s : s + wide]
                    for each, t, s in zip(value, top, left, strict=True)
                ]
            )
            for name, value in batch.items()
        }
