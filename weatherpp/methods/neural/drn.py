"""Distributional regression network: one network for all stations, which knows them apart.

A dense network gives the mean and the spread of a normal distribution, or quantiles, from the
members' mean and spread of all variables, the place of the station, and the day of the year; it can
see the members themselves as well, as a set or as predictors of their own. Each station has an
embedding, two learnt numbers among the predictors, by which the network tells the stations' own
errors. Trained for the CRPS; several networks are averaged.

References
----------
Rasp, S. and Lerch, S. (2018), Mon. Wea. Rev. 146, 3885-3900, doi:10.1175/MWR-D-18-0187.1.
Zaheer, M. et al. (2017), Deep sets, arXiv:1703.06114.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
import torch
import xarray as xr
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor, nn

from weatherpp.data import netcdf
from weatherpp.data.fields import ensemble_mean
from weatherpp.errors import InputError
from weatherpp.methods.base import FitData, Method
from weatherpp.methods.classical.common import (
    dist_attrs,
    same_grid,
    target_members,
    training_pairs,
)
from weatherpp.methods.neural.build import (
    BatchSize,
    Depth,
    Dropout,
    Epochs,
    Levels,
    Seeds,
    Training,
    Width,
    pick_device,
)
from weatherpp.methods.neural.heads import Normal, Quantiles
from weatherpp.methods.neural.losses import weighted_mean
from weatherpp.methods.neural.networks.dense import DenseNet, DenseSetNet
from weatherpp.methods.neural.samples import Batch, Block, Kind, Samples, assemble, plan
from weatherpp.methods.neural.tracking import training_logger
from weatherpp.methods.neural.weights import NETWORKS, load_networks, save_networks
from weatherpp.methods.season import harmonics
from weatherpp.strict import Strict

Floats = NDArray[np.float64]
INPUTS = "inputs.nc"
CURVE = "training.csv"


class DrnTraining(Training):
    """As :class:`~weatherpp.methods.neural.build.Training`, for a small network."""

    epochs: Epochs = 40
    batch: BatchSize = Field(default=256, description="pairs a step, about; whole dates are taken")


class DrnSettings(Strict):
    """Settings of :class:`Drn`; an empty choice of predictors means all there are."""

    width: Width = Field(default=32, description="units of a hidden layer")
    depth: Depth = Field(default=2, description="hidden layers")
    embedding: int = Field(default=2, ge=0, le=1000, description="learnt numbers of each station")
    dropout: Dropout = 0.0
    variables: tuple[str, ...] = ()
    levels: tuple[int, ...] = ()
    leads: tuple[float, ...] = Field(default=(), description="lead times of predictors, hours")
    members: Literal["none", "set", "each"] = Field(
        default="none",
        description="members besides their mean and spread: none, as a set without an order, or "
        "each as a predictor of its own, for models that cannot be exchanged",
    )
    head: Literal["normal", "quantiles"] = "normal"
    quantiles: Levels = Field(default=25, description="number of quantiles, odd")
    floor: float | None = Field(
        default=None,
        description="least value there is, 0 for rain; quantiles below are put at it",
    )
    seeds: Seeds = Field(default=5, description="networks to average")
    training: DrnTraining = DrnTraining()

    @model_validator(mode="after")
    def _consistent(self) -> DrnSettings:
        if self.quantiles % 2 == 0:
            raise ValueError("quantiles must be odd, so that the median is one of them")
        if self.floor is not None and self.head != "quantiles":
            raise ValueError("floor goes with head: quantiles, a normal distribution has none")
        return self


class FlooredQuantiles(Quantiles):
    """Quantiles that are put at ``batch["floor"]``, in units of the base, where they are below."""

    def values(self, output: Tensor, batch: Batch) -> Tensor:
        """Ascending in the second dimension."""
        return torch.maximum(super().values(output, batch), batch["floor"][:, None])


class Drn(Method):
    """Distribution at stations from one network, which starts as a global bias correction.

    Attributes
    ----------
    device
        ``auto``, ``cpu`` or ``cuda``, also for predictions.
    curve
        Rows (network, epoch, training loss, validation loss), in the units of the target; epoch 0
        is the bias correction.
    """

    name: ClassVar[str] = "drn"
    Settings = DrnSettings

    def __init__(self, target: Any, settings: Any = None):
        super().__init__(target, settings)
        self.device = "auto"
        self.curve: pd.DataFrame
        own: DrnSettings = self.settings
        quantiles = Quantiles if own.floor is None else FlooredQuantiles
        self.head = Normal() if own.head == "normal" else quantiles(own.quantiles)
        self.blocks: list[Block]
        self.inputs: xr.Dataset
        self.bias: float
        self.scale: float
        self.nets: list[nn.Module] = []

    def fit(self, data: FitData) -> Self:
        """Train the networks on the training dates, stopped by the validation dates.

        Raises
        ------
        InputError
            There are no stations, no analyses, or no pair of forecast and analysis.
        """
        self.device = data.device
        _needs_stations(target_members(data.forecast, self.target), self.name)
        settings = self.settings
        mean, truth = training_pairs(data, self.name)
        error = truth.astype(np.float64) - mean.astype(np.float64)
        self.bias = float(error.mean())
        self.scale = float(((error - self.bias) ** 2).mean()) ** 0.5 or 1.0
        forecast = _as_row(data.forecast.sel(time=data.train))
        kinds: list[Kind] = ["mean", "spread"]
        if settings.members != "none":
            kinds.append("members")
        self.blocks = plan(forecast, kinds, settings.variables, settings.levels, settings.leads)
        predictors = assemble(forecast, self.blocks).load()
        self.inputs = _statistics(predictors, mean)
        if settings.members == "set":
            self._standardise_alike(predictors)
        parts = [self._samples(data, times) for times in (data.train, data.valid) if len(times)]
        self._train(data, parts[0], parts[1] if len(parts) > 1 else None)
        return self

    def _standardise_alike(self, predictors: xr.DataArray) -> None:
        """Give all members the same statistics, with their spread as the unit."""
        names = self._names()
        mean, std = (self.inputs[part].values for part in ("mean", "std"))
        for at, name in enumerate(names):
            kind, _, field = name.partition(":")
            if not kind.startswith("member"):
                continue
            if f"spread:{field}" not in names:
                raise InputError(f"method {self.name}, members: set: give at least two members")
            spread = predictors[:, names.index(f"spread:{field}")].astype(np.float64)
            mean[at] = mean[names.index(f"mean:{field}")]
            std[at] = float((spread**2).mean()) ** 0.5 or 1.0

    def _samples(self, data: FitData, times: pd.DatetimeIndex) -> Samples:
        pairs = dataclasses.replace(data, train=times)
        mean, truth = training_pairs(pairs, self.name)
        error = truth.transpose("time", "station").values - mean.values.astype(np.float64)
        goal = ((error - self.bias) / self.scale)[:, None]
        there = np.isfinite(goal)
        parts = {"goal": np.where(there, goal, 0), "weight": there}
        if self.settings.floor is not None:
            floor = self._floor(mean.values.astype(np.float64) + self.bias)[:, None]
            parts["floor"] = np.where(there, floor, 0)
        dated = {name: torch.from_numpy(part.astype(np.float32)) for name, part in parts.items()}
        return self._dataset(data.forecast.sel(time=times), dated)

    def _floor(self, centre: Floats) -> Floats:
        """The floor in units of the base, whose mean is ``centre``."""
        out: Floats = (self.settings.floor - centre) / self.scale
        return out

    def _names(self) -> list[str]:
        """Names of the predictors that come from the forecast."""
        return [name for block in self.blocks for name in block.names]

    def _dataset(self, forecast: xr.Dataset, dated: dict[str, Tensor]) -> Samples:
        predictors = assemble(_as_row(forecast), self.blocks).load()
        shape = predictors.shape
        valid = pd.DatetimeIndex(forecast["time"].values) + self.target.lead
        season = harmonics(valid)[..., None, None]
        extra = np.broadcast_to(season, (*season.shape[:2], *shape[2:])).astype(np.float32)
        mean, std = (
            np.broadcast_to(self.inputs[name].values[:, None, None], shape[1:]).copy()
            for name in ("mean", "std")
        )
        constant = self.inputs["constant"].values[:, None]
        return Samples(predictors, mean, std, constant, {"extra": torch.from_numpy(extra), **dated})

    def _network(self) -> nn.Module:
        settings, stations = self.settings, self.inputs.sizes["station"]
        channels = self.inputs.sizes["predictor"] + 2 + self.inputs.sizes["field"]
        embedding = settings.embedding if stations > 1 else 0  # one station is like itself
        outputs = 2 if settings.head == "normal" else settings.quantiles
        size = (outputs, settings.width, settings.depth, stations, embedding, settings.dropout)
        if settings.members != "set":
            return DenseNet(channels, *size)
        places: dict[str, list[int]] = {}
        for at, name in enumerate(self._names()):
            if name.startswith("member"):
                places.setdefault(name.partition(":")[0], []).append(at)
        return DenseSetNet(list(places.values()), channels, *size)

    def _loss(self, output: Tensor, batch: Batch) -> Tensor:
        return weighted_mean(self.head.crps(output, batch), batch["weight"])

    def _train(self, data: FitData, samples: Samples, valid: Samples | None) -> None:
        # here, because a prediction must not wait for Lightning's import
        from weatherpp.methods.neural.training import train

        training = self.settings.training
        dates = max(1, round(training.batch / self.inputs.sizes["station"]))
        self.nets, curves = [], []
        for number in range(self.settings.seeds):
            net, curve = train(
                self._network,
                self._loss,
                samples,
                valid,
                training.model_copy(update={"batch": dates}),
                seed=1000 * data.seed + number,
                device=data.device,
                progress=data.progress,
                description=f"{self.name} {self.target.name}, network {number + 1}",
                logger=training_logger(data, number + 1, training),
            )
            self.nets.append(net)
            curves += [
                (number, at, *(loss * self.scale for loss in losses)) for at, *losses in curve
            ]
        self.curve = pd.DataFrame(curves, columns=["network", "epoch", "train", "valid"])

    def predict(self, forecast: xr.Dataset) -> xr.Dataset:
        """Normal distribution or quantiles, dims (time, station), in the type of the forecast; NaN
        where a member of the target field is.

        Raises
        ------
        InputError
            A predictor is missing or the stations are not those of the fit.
        """
        members = target_members(forecast, self.target)
        _needs_stations(members, self.name)
        same_grid(self.inputs[["station"]], members)
        samples = self._dataset(forecast, {})
        device = pick_device(self.device)
        with torch.inference_mode():
            x = samples.__getitems__(list(range(len(samples))))["x"].to(device)
            outputs = [net.to(device)(x).double().cpu().numpy() for net in self.nets]
        like = ensemble_mean(members).transpose("time", "station").expand_dims("y", axis=1)
        centre = like.values.astype(np.float64) + self.bias
        spread = np.where(np.isnan(centre), np.nan, self.scale)
        base = {"mean": centre, "spread": spread}
        least = self.settings.floor
        if least is not None:
            base["floor"] = self._floor(centre)
        attrs = dist_attrs(self.target, self.name)
        result = self.head.result(np.mean(outputs, axis=0), base, like, **attrs).isel(
            y=0, drop=True
        )
        if least is not None:  # rounding may have left values a little below
            result["value"] = result["value"].clip(min=least, keep_attrs=True)
        return result

    def _save(self, folder: Path) -> dict[str, Any]:
        save_networks(self.nets, folder / NETWORKS)
        netcdf.write(self.inputs, folder / INPUTS)
        self.curve.to_csv(folder / CURVE, index=False)
        blocks = [dataclasses.asdict(block) for block in self.blocks]
        return {"blocks": blocks, "bias": self.bias, "scale": self.scale}

    def _load(self, folder: Path, extra: dict[str, Any]) -> None:
        self.blocks = [Block.from_json(block) for block in extra["blocks"]]
        self.bias, self.scale = float(extra["bias"]), float(extra["scale"])
        self.inputs = xr.load_dataset(folder / INPUTS, engine="netcdf4")
        self.curve = pd.read_csv(folder / CURVE)
        self.nets = load_networks(self._network, self.settings.seeds, folder / NETWORKS)


def _needs_stations(field: xr.DataArray, name: str) -> None:
    if "station" not in field.dims:
        raise InputError(
            f"method {name} is for stations; the data have the dimensions "
            f"{', '.join(str(dim) for dim in field.dims)}; take method mixed for a grid"
        )


def _as_row(forecast: xr.Dataset) -> xr.Dataset:
    """Stations as the columns of a grid of one row."""
    flat = [name for name, c in forecast.coords.items() if c.dims and "station" in c.dims]
    return forecast.drop_vars(flat).rename(station="x").expand_dims("y", axis=-2)


def _statistics(predictors: xr.DataArray, field: xr.DataArray) -> xr.Dataset:
    """Statistics of the predictors over all training dates and stations, and where these are.

    ``mean`` and ``std`` (predictor,), ``constant`` (field, station): standardised altitude,
    latitude and longitude, as far as they are known.
    """
    values = predictors.astype(np.float64)
    over = ("time", "y", "x")
    mean, std = values.mean(over).fillna(0.0), values.std(over)
    std = std.where(std > 0, 1.0)
    constant = {}
    for name in ("altitude", "latitude", "longitude"):
        if name not in field.coords:
            continue
        place = field[name].values.astype(np.float64)
        if name == "longitude":  # no jump at Greenwich
            place = (place - place[0] + 180) % 360 - 180
        known = np.isfinite(place)
        if known.any():
            away = np.where(known, place - place[known].mean(), 0.0)
            constant[name] = away / (away.std() or 1.0)
    shape = (len(constant), field.sizes["station"])
    stack = np.array(list(constant.values()), np.float32).reshape(shape)
    return xr.Dataset(
        {
            "mean": ("predictor", mean.values.astype(np.float32)),
            "std": ("predictor", std.values.astype(np.float32)),
            "constant": (("field", "station"), stack),
        },
        {
            "field": np.array(list(constant), dtype=str),
            "station": field["station"].values,
        },
    )
