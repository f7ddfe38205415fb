"""What the neural methods share: a simple method as base, and a network that corrects it.

The network starts at zero correction, so the base is what it has to beat: if no epoch is better
on the validation dates, the base is what comes out.
"""

from __future__ import annotations

import csv
import dataclasses
import math
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import torch
import xarray as xr
from numpy.typing import NDArray
from pydantic import BaseModel
from torch import Tensor, nn

from weatherpp import distribution
from weatherpp.data import netcdf
from weatherpp.data.fields import ensemble_mean, select
from weatherpp.errors import ConfigError, InputError
from weatherpp.methods.base import FitData, Method, load_model, method_class, silent
from weatherpp.methods.classical.common import same_grid
from weatherpp.methods.neural.arrange import arrange
from weatherpp.methods.neural.build import Curve, NeuralSettings, Place, build_network, pick_device
from weatherpp.methods.neural.networks.padding import STRIP_POINTS, Topology
from weatherpp.methods.neural.networks.stack import Stack
from weatherpp.methods.neural.pool import Pool
from weatherpp.methods.neural.samples import (
    Batch,
    Block,
    Kind,
    Samples,
    area_weights,
    assemble,
    constant_fields,
    in_memory,
    plan,
    plane,
    topology_of,
)
from weatherpp.methods.neural.standardise import alike, local_standardisation, places_in_member
from weatherpp.methods.neural.tracking import training_logger
from weatherpp.methods.neural.weights import NETWORKS, load_networks, save_networks

Floats = NDArray[np.float64]
# a base spread below this share of its mean is raised to it: errors are counted in base spreads
LEAST_SPREAD = 1e-3
# fewer training dates than this for one fit of the base are not split up
LEAST_DATES = 30
# the logarithm of the factor on the spread stays within this
LARGEST_FACTOR = 2.0
PREDICT_BATCH = 16
WIDE_BASES = ("ridge", "mean-net")


class Correction(Method):
    """Base of the methods here; see :class:`Mixed` and :class:`SpreadNet`.

    Attributes
    ----------
    device
        ``auto``, ``cpu`` or ``cuda``, also for predictions.
    curve
        Rows (seed, epoch, training loss, validation loss); epoch 0 is the base. Losses are in
        ``loss_units``.
    """

    Settings: ClassVar[type[BaseModel]] = NeuralSettings
    outputs: int | None
    base_method: str
    loss_units: ClassVar[str] = "units of the target"

    def __init__(self, target: Any, settings: Any = None):
        super().__init__(target, settings)
        self.device = "auto"
        self.curve: list[tuple[int, int, float, float]] = []
        self.base: Method
        self.blocks: list[Block]
        self.inputs: xr.Dataset
        self.topology: Topology
        self.scale: float
        self.nets: list[nn.Module]

    # what differs between the methods

    def _goal(self, data: FitData) -> xr.DataArray:
        """The field to come close to, dims (time, grid...): the analysis."""
        if data.truth is None:
            raise InputError(f"method {self.name} learns from analyses; the archive has none")
        return data.truth

    def _relative(self, goal: Floats, mean: Floats, spread: Floats) -> Floats:
        """Goal in units of the base."""
        return (goal - mean) / spread

    @abstractmethod
    def _loss(self, output: Tensor, batch: Batch) -> Tensor:
        """Loss of a batch; scale with ``batch["unit"]``."""

    @abstractmethod
    def _score(self, loss: float) -> float:
        """Loss in the units of the target."""

    @abstractmethod
    def _result(
        self, output: Floats, mean: Floats, spread: Floats, field: xr.DataArray
    ) -> xr.Dataset:
        """Predictive distribution from the network's output, the base and the members."""

    def _normal(self, mean: Floats, spread: Floats, field: xr.DataArray) -> xr.Dataset:
        """Normal distribution in the type of the members."""
        like = ensemble_mean(field)
        parts = (like.copy(data=each.astype(like.dtype)) for each in (mean, spread))
        return distribution.normal(*parts, variable=self.target.variable, target=self.target.name)

    def _make_base(self) -> Method:
        """The base, not yet fitted."""
        return method_class(self.base_method)(self.target)

    def _for_base(self, forecast: xr.Dataset) -> xr.Dataset:
        """The members that the base sees."""
        return forecast

    def _own(self, forecast: xr.Dataset) -> xr.Dataset:
        """The members that the network sees."""
        return forecast

    def _more(
        self, field: xr.DataArray, goal: Floats, mean: Floats, spread: Floats, train: NDArray[Any]
    ) -> dict[str, Floats]:
        """What else the loss needs of each date; ``train`` says which dates are for training."""
        return {}

    # fit

    def fit(self, data: FitData) -> Self:
        """Fit the base, then train the network(s) on the training dates.

        Raises
        ------
        InputError
            A field is missing or there is no grid.
        ConfigError
            A setting does not suit the data.
        """
        self.device = data.device
        self._train(data, *self._prepare(data))
        return self

    def _prepare(self, data: FitData) -> tuple[Samples | Pool, Samples | Pool | None]:
        """Fit the base; the samples for training and, if there are any, for validation."""
        settings = self.settings
        field = self._field(self._own(data.forecast))
        self.topology = topology_of(field)
        if settings.tile and self.topology.periodic:
            raise ConfigError(f"method {self.name}: tile is for limited areas; set tile: 0")
        if not len(data.train):
            raise InputError(f"method {self.name}: there are no training dates")
        times = data.train.union(data.valid)
        forecast = self._own(data.forecast).sel(time=times)
        kinds: tuple[Kind, ...] = ("members",) if self._over_members else settings.predictors
        self.blocks = plan(forecast, kinds, settings.variables, settings.levels, settings.leads)
        data.progress(f"{self.name}: reading predictors", 0, 1)
        predictors = in_memory(assemble(forecast, self.blocks), settings.memory * 1e9, data.cache)
        self.inputs = self._standardise(predictors.sel(time=data.train), data.static, field)
        data.progress(f"{self.name}: fitting {self.base_method}", 0, 1)
        data = self._in_memory(data, times)
        mean, spread = self._base(data, times)
        at_train = times.isin(data.train)
        self.scale = float(np.nanmean(spread[at_train]))
        if not self.scale > 0:
            raise InputError(
                f"method {self.name}: by its base {self.base_method}, {self.target.name} has no "
                "spread on any training date, so there is nothing to learn; check the members"
            )
        spread = np.maximum(spread, LEAST_SPREAD * self.scale)
        goal = self._goal(data).transpose("time", *plane(field)).sel(time=times).values
        field = self._field(self._own(data.forecast)).load()  # a wide base leaves it lazy
        dated = {
            "extra": self._extra(self._members(field), mean, spread),
            **self._goals(goal, mean, spread, area_weights(field)),
        }
        more = self._more(field, goal, mean, spread, at_train)
        dated |= {name: torch.from_numpy(each.astype(np.float32)) for name, each in more.items()}
        there = (dated["weight"] > 0).flatten(1).any(dim=1).numpy()  # a date of gaps tells nothing
        parts = [
            self._dataset(predictors[at], {name: each[at] for name, each in dated.items()})
            for at in (at_train & there, ~at_train & there)
            if at.any()
        ]
        return parts[0], parts[1] if len(parts) > 1 else None

    def _in_memory(self, data: FitData, times: pd.DatetimeIndex) -> FitData:
        """The target field alone, loaded once: the base is fitted to it several times.

        A base that looks at other fields too gets the forecast as it is.
        """
        forecast = data.forecast.sel(time=times)
        if self.base_method not in WIDE_BASES:
            forecast = forecast[[self.target.variable]]
            for dim, value in (("step", self.target.lead), ("level", self.target.level)):
                if dim in forecast.dims:
                    forecast = forecast.sel({dim: [value]})
            forecast = forecast.load()
        truth = None if data.truth is None else data.truth.load()
        return dataclasses.replace(data, forecast=forecast, full=data.full.load(), truth=truth)

    def _field(self, forecast: xr.Dataset) -> xr.DataArray:
        field = select(forecast, self.target.variable, self.target.level, self.target.lead)
        return field.transpose("time", "number", *plane(field)).sortby("number")

    def _members(self, field: xr.DataArray) -> Floats:
        """Members' mean of the target field, shape (time, rows, columns)."""
        return np.asarray(ensemble_mean(field).values, np.float64)

    @property
    def any_number(self) -> bool:
        """Networks over the set of members take any number of them."""
        return self._over_members

    @property
    def _over_members(self) -> bool:
        """Whether the network takes any number of members, in any order."""
        return bool(self.settings.network == "set")

    def _standardise(
        self, predictors: xr.DataArray, static: xr.Dataset, field: xr.DataArray
    ) -> xr.Dataset:
        """Statistics of the predictors and the constant fields; all that predicting needs."""
        inputs = local_standardisation(
            predictors,
            periodic=self.topology.periodic,
            box=self.settings.box,
            smoothing=self.settings.smoothing,
        ).astype(np.float32)
        constant = constant_fields(static, field) if self.settings.static else {}
        shape = tuple(field.sizes[dim] for dim in plane(field))
        stack = np.stack(list(constant.values())) if constant else np.zeros((0, *shape), np.float32)
        names = [name for block in self.blocks for name in block.names]
        if self._over_members:
            inputs, names = alike(inputs, self.blocks)
        named: dict[str, Any] = {
            "predictor": names,
            "field": np.array(list(constant), dtype=str),
            **{dim: field[dim].values for dim in plane(field) if dim in field.coords},
        }
        inputs = inputs.assign(constant=(("field", *plane(field)), stack))
        return inputs.assign_coords(named)

    def _base(self, data: FitData, times: pd.DatetimeIndex) -> tuple[Floats, Floats]:
        """Mean and spread of the base at ``times``; see ``cross_fit``.

        A base fitted on the very dates the network is trained on has too small errors there,
        and the network would learn too small a spread.
        """

        def fitted(dates: pd.DatetimeIndex, name: str) -> Method:
            none = pd.DatetimeIndex([])
            own = dataclasses.replace(
                data,
                forecast=self._for_base(data.forecast),
                train=dates,
                valid=none,
                progress=silent,
                keep=data.keep and data.keep / name,
                name=f"{data.name}/{name}",
            )
            return self._make_base().fit(own)

        self.base = fitted(data.train, "base")
        forecast = data.forecast.sel(time=times)
        mean, spread = self._base_values(self.base, forecast)
        folds = min(self.settings.cross_fit, len(data.train))
        if folds > 1 and len(data.train) * (folds - 1) / folds >= LEAST_DATES:
            for fold, part in enumerate(np.array_split(np.arange(len(data.train)), folds)):
                honest = fitted(data.train.delete(part), f"base-{fold}")
                at = times.isin(data.train[part])
                mean[at], spread[at] = self._base_values(honest, forecast.isel(time=at))
        return mean, spread

    def _base_values(self, base: Method, forecast: xr.Dataset) -> tuple[Floats, Floats]:
        result = base.predict(self._for_base(forecast))
        dims = ("time", *plane(result))
        parts = (distribution.mean(result), distribution.spread(result))
        mean, spread = (np.array(part.transpose(*dims).values, np.float64) for part in parts)
        return mean, spread

    def _extra(self, members: Floats, mean: Floats, spread: Floats) -> Tensor:
        """Predictors from the base: how far it moves the members' mean, and its spread."""
        fields = np.stack([(members - mean) / spread, np.log(spread / self.scale)], axis=1)
        return torch.from_numpy(np.nan_to_num(fields.astype(np.float32)))

    def _goals(
        self, goal: Floats, mean: Floats, spread: Floats, weights: Floats
    ) -> dict[str, Tensor]:
        """What the loss compares with, where it is, and how much each point counts."""
        relative = self._relative(goal, mean, spread)
        valid = np.isfinite(relative)
        fields = {
            "goal": np.where(valid, relative, 0),
            "unit": np.where(valid, spread / self.scale, 1),
            "weight": weights * valid,
        }
        return {name: torch.from_numpy(each.astype(np.float32)) for name, each in fields.items()}

    def _dataset(
        self,
        predictors: xr.DataArray,
        dated: dict[str, Tensor],
        blocks: Sequence[Block] | None = None,
    ) -> Samples:
        mean, std, constant = (self.inputs[name].values for name in ("mean", "std", "constant"))
        if self._over_members:
            at = places_in_member(self.blocks if blocks is None else blocks)
            mean, std = mean[at], std[at]
        return Samples(predictors, mean, std, constant, dated)

    def _train(self, data: FitData, samples: Samples | Pool, valid: Samples | Pool | None) -> None:
        # here, because a prediction must not wait for Lightning's import
        from weatherpp.methods.neural.training import train

        settings = self.settings
        self.nets, self.curve = [], []
        for number in range(settings.seeds):
            seed = 1000 * data.seed + number
            samples.cut(settings.tile, settings.tiles)
            net, curve = train(
                self._network,
                self._loss,
                samples,
                valid,
                settings.training,
                seed=seed,
                device=data.device,
                progress=data.progress,
                description=f"{self.name} {self.target.name}, network {number + 1}",
                keep=data.keep and data.keep / f"network-{number + 1}.safetensors",
                logger=training_logger(data, number + 1, settings.training),
            )
            self.nets.append(net)
            self._record(number, curve)

    def _record(self, number: int, curve: Curve) -> None:
        for epoch, *losses in curve:
            first, second = (self._score(loss) for loss in losses)
            self.curve.append((number, epoch, first, second))

    def _network(self) -> nn.Module:
        rows, columns = self.inputs["mean"].shape[-2:]
        others = 2 + self.inputs.sizes["field"]
        place = Place((rows, columns), self.topology, self.target.level)
        return build_network(self.settings, self.blocks, others, self.outputs, place)

    # predict

    def predict(self, forecast: xr.Dataset) -> xr.Dataset:
        """Predictive distribution, dims (time, grid...), units of the target.

        A network over members takes other members, and another number of them, than it was
        fitted with.

        Raises
        ------
        InputError
            A predictor is missing or the grid is not that of the fit.
        """
        field = self._field(self._own(forecast))
        here = tuple(field.sizes[dim] for dim in plane(field))
        there = self.inputs["mean"].shape[1:]
        if here != there:
            raise InputError(
                f"the model was fitted on a grid of {there[0]} x {there[1]}, "
                f"the forecast has {here[0]} x {here[1]}"
            )
        same_grid(self.inputs.drop_dims(["predictor", "field"]), field)
        mean, spread = self._base_values(self.base, forecast)
        spread = np.maximum(spread, LEAST_SPREAD * self.scale)
        blocks = [self._with_members(block, field) for block in self.blocks]
        predictors = in_memory(assemble(self._own(forecast), blocks), self.settings.memory * 1e9)
        extra = self._extra(self._members(field), mean, spread)
        samples = self._dataset(predictors, {"extra": extra}, blocks)
        nets = self.nets
        if blocks != self.blocks:
            table, _ = arrange(blocks, "layer", 2 + self.inputs.sizes["field"])
            nets = [net.arranged(table) for net in nets if isinstance(net, Stack)]
        return self._result(self._run(samples, nets), mean, spread, field)

    def _with_members(self, block: Block, field: xr.DataArray) -> Block:
        """The block with the members there are, if the network takes any."""
        if not self._over_members:
            return block
        numbers = tuple(int(number) for number in field["number"].values)
        return dataclasses.replace(block, members=numbers)

    def _run(self, samples: Samples, nets: Sequence[nn.Module]) -> Floats:
        """Mean output of the networks, shape (time, output, rows, columns)."""
        device = pick_device(self.device)
        nets = [net.to(device) for net in nets]
        parts = []
        points = math.prod(self.inputs["mean"].shape[1:])
        batch = min(PREDICT_BATCH, max(1, STRIP_POINTS // points))  # one date of a large grid
        with torch.inference_mode():
            for start in range(0, len(samples), batch):
                dates = list(range(start, min(start + batch, len(samples))))
                x = samples.__getitems__(dates)["x"].to(device)
                total = sum(net(x).double() for net in nets) / len(nets)
                parts.append(torch.as_tensor(total).cpu().numpy())
        return np.concatenate(parts)

    # model folder

    def notes(self) -> list[str]:
        """Size, and the best epoch of each network against the base."""
        count = sum(parameter.numel() for parameter in self.nets[0].parameters())
        found = [f"{len(self.nets)} network(s) of {count} parameters, base {self.base_method}"]
        for number in range(len(self.nets)):
            losses = {epoch: valid for n, epoch, _, valid in self.curve if n == number}
            if 0 in losses:
                best = min(losses, key=lambda epoch: losses[epoch])
                found.append(
                    f"Network {number + 1}: validation loss {losses[best]:.4g} after {best} of "
                    f"{max(losses)} epochs, {losses[0]:.4g} without it (area mean, "
                    f"{self.loss_units})"
                )
        return found

    def _save(self, folder: Path) -> dict[str, Any]:
        save_networks(self.nets, folder / NETWORKS)
        with (folder / "training.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(("network", "epoch", "train", "valid"))
            writer.writerows(self.curve)
        return self._save_inputs(folder)

    def _save_inputs(self, folder: Path) -> dict[str, Any]:
        """Write all that a prediction needs besides the networks."""
        netcdf.write(self.inputs, folder / "inputs.nc")
        self.base.save(folder / "base", {})
        return {
            "blocks": [dataclasses.asdict(block) for block in self.blocks],
            "topology": dataclasses.asdict(self.topology),
            "scale": self.scale,
        }

    def _load_inputs(self, folder: Path, extra: dict[str, Any]) -> None:
        """Undo :meth:`_save_inputs`."""
        self.blocks = [Block.from_json(block) for block in extra["blocks"]]
        self.topology = Topology(**extra["topology"])
        self.scale = float(extra["scale"])
        self.inputs = xr.load_dataset(folder / "inputs.nc", engine="netcdf4")
        self.base = load_model(folder / "base")

    def _load(self, folder: Path, extra: dict[str, Any]) -> None:
        self._load_inputs(folder, extra)
        self.nets = load_networks(self._network, self.settings.seeds, folder / NETWORKS)
        with (folder / "training.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))[1:]
        self.curve = [(int(a), int(b), float(c), float(d)) for a, b, c, d in rows]


def root(loss: float) -> float:
    """Square root that lets NaN pass."""
    return math.sqrt(loss) if loss >= 0 else math.nan
