"""Training of one network: a small Lightning task, the best weights kept in memory.

Every epoch's order of samples and dropout follow from the seed and its number alone. So a fit that
was interrupted goes on from the checkpoint of the last epoch and arrives at the same weights. No
pickle is involved, see :mod:`weatherpp.methods.neural.checkpoint`.
"""

from __future__ import annotations

import copy
import logging
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader

from weatherpp.errors import ConfigError, WeatherppError
from weatherpp.methods.base import Progress
from weatherpp.methods.neural import checkpoint
from weatherpp.methods.neural.build import (
    MOST_EPOCHS,
    MOST_PARAMETERS,
    Curve,
    Training,
    pick_device,
)
from weatherpp.methods.neural.networks.bias import Local
from weatherpp.methods.neural.pool import Pool
from weatherpp.methods.neural.samples import Batch, Samples

Loss = Callable[[Tensor, Batch], Tensor]


class _Task(lightning.LightningModule):
    """Network, its running mean, loss, optimiser, schedule and the samples of each epoch."""

    def __init__(
        self, net: nn.Module, loss: Loss, samples: Samples | Pool, training: Training, seed: int
    ):
        super().__init__()
        self.net, self.loss, self.training_settings = net, loss, training
        self.samples, self.seed = samples, seed
        self.steps = math.ceil(len(samples) / training.batch) * training.epochs
        mean = get_ema_multi_avg_fn(training.average)  # type: ignore[no-untyped-call]
        self.mean = AveragedModel(net, multi_avg_fn=mean)

    def train_dataloader(self) -> DataLoader[Batch]:
        """That of the current epoch."""
        seed = MOST_EPOCHS * self.seed + self.current_epoch
        self.samples.reseed(seed)
        return _loader(self.samples, self.training_settings.batch, seed)

    def training_step(self, batch: Batch, index: int) -> Tensor:
        if index == 0:
            # not before the epoch: loaders draw a number whenever they are begun, and Lightning
            # begins them once more where a training goes on
            torch.manual_seed(MOST_EPOCHS * self.seed + self.current_epoch)
        loss = self.loss(self.net(batch["x"]), batch)
        if isinstance(self.net, Local):
            loss = loss + self.net.penalty()
        self.log("train", loss, on_step=False, on_epoch=True, batch_size=len(batch["x"]))
        return loss

    def on_train_batch_end(self, *_: Any) -> None:
        self.mean.update_parameters(self.net)

    def validation_step(self, batch: Batch, _: int) -> None:
        loss = self.loss(self.mean(batch["x"]), batch)
        self.log("valid", loss, batch_size=len(batch["x"]))

    def configure_optimizers(self) -> Any:
        settings = self.training_settings
        # biases are not decayed
        groups: list[dict[str, Any]] = [
            {"params": [p for p in self.net.parameters() if p.ndim > 1]},
            {"params": [p for p in self.net.parameters() if p.ndim <= 1], "weight_decay": 0.0},
        ]
        optimiser = torch.optim.AdamW(
            groups,
            lr=settings.learning_rate,
            weight_decay=settings.weight_decay,
        )
        if settings.schedule == "plateau":
            plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
                optimiser, factor=settings.factor, patience=settings.patience // 2
            )
            told = {"scheduler": plateau, "interval": "epoch", "monitor": "valid"}
            return {"optimizer": optimiser, "lr_scheduler": told}
        warm = max(1.0, settings.warm_up * self.steps)

        def rate(step: int) -> float:
            if step < warm:
                return (step + 1) / (warm + 1)
            if settings.schedule == "constant":
                return 1.0
            return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1.0, self.steps - warm)))

        schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, rate)
        return {
            "optimizer": optimiser,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }


class _Best(Callback):
    """Keeps the training curve and the weights with the lowest validation loss.

    The untrained network, which changes nothing, takes part as epoch 0 (Lightning's sanity
    check). Without validation dates the last weights are kept.
    """

    def __init__(self, progress: Progress, description: str):
        self.progress, self.description = progress, description
        self.curve: Curve = []
        self.loss = math.inf
        self.state: dict[str, Tensor] = {}

    def state_dict(self) -> dict[str, Any]:
        return {"curve": self.curve, "loss": self.loss, "state": self.state}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.curve = [(int(a), float(b), float(c)) for a, b, c in state_dict["curve"]]
        self.loss, self.state = float(state_dict["loss"]), dict(state_dict["state"])

    def _keep(self, module: Any) -> None:
        self.state = copy.deepcopy(module.mean.module.state_dict())

    def on_validation_end(self, trainer: Any, module: Any) -> None:
        if trainer.sanity_checking and self.curve:
            return  # training goes on; the check is not of the untrained network
        valid = float(trainer.callback_metrics["valid"])
        if valid < self.loss:
            self.loss = valid
            self._keep(module)
        if trainer.sanity_checking:
            self.curve.append((0, math.nan, valid))

    def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
        metrics = trainer.callback_metrics
        train, valid = float(metrics["train"]), float(metrics.get("valid", math.nan))
        if not math.isfinite(train):
            raise WeatherppError(
                f"{self.description}: the loss is {train} in epoch {trainer.current_epoch + 1}; "
                "lower training.learning_rate"
            )
        if math.isnan(valid):
            self._keep(module)
        self.curve.append((trainer.current_epoch + 1, train, valid))
        self.progress(self.description, trainer.current_epoch + 1, trainer.max_epochs)


class _Saver(Callback):
    """Writes the checkpoint of each epoch, and notes whether training ended with it."""

    def __init__(self, path: Path):
        self.path, self.over = path, False

    def state_dict(self) -> dict[str, Any]:
        return {"over": self.over}

    def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
        self.over = trainer.should_stop or trainer.current_epoch + 1 >= trainer.max_epochs
        self.path.parent.mkdir(parents=True, exist_ok=True)
        trainer.save_checkpoint(self.path)


@contextmanager
def _quiet() -> Iterator[None]:
    """No chatter of Lightning: its hints on workers, loggers and devices are not for users."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _loader(samples: Samples | Pool, batch: int, seed: int | None) -> DataLoader[Batch]:
    """Shuffled if there is a seed, in an order that is the same each time it is gone through."""
    order = None
    if seed is not None:
        order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(seed)).tolist()
    # the data set gives whole batches
    return DataLoader(samples, batch_size=batch, sampler=order, collate_fn=_as_is)


def _as_is(batch: Any) -> Any:
    return batch


def train(
    build: Callable[[], nn.Module],
    loss: Loss,
    samples: Samples | Pool,
    valid: Samples | Pool | None,
    training: Training,
    *,
    seed: int,
    device: str = "auto",
    progress: Progress,
    description: str = "training",
    keep: Path | None = None,
    logger: Callable[[], Any] | None = None,
) -> tuple[nn.Module, Curve]:
    """Train a network; two calls on one machine give the same weights.

    Parameters
    ----------
    build
        Makes the network; called once, after seeding.
    loss
        ``loss(output, batch)``, a scalar.
    samples, valid
        Training and validation samples; without the latter the last weights are taken.
    training
        Settings.
    seed
        Of initial weights, dropout and the order of samples. Torch's global random state is
        left as it was found.
    device
        ``auto``, ``cpu`` or ``cuda``.
    progress, description
        Called as ``progress(description, epoch, epochs)``.
    keep
        File for the checkpoint of each epoch; if it is there, training goes on from it. It
        must stem from the same call.
    logger
        Makes the Lightning logger that is told the losses, if there is anything to train.

    Returns
    -------
    Network with the best weights, on the CPU, in evaluation mode; and the training curve: epoch,
    training loss, validation loss. Epoch 0 is the untrained network.

    Raises
    ------
    WeatherppError
        The loss becomes NaN or infinite.
    ConfigError
        The schedule needs validation dates, and there are none; or the network does not fit into
        the memory.
    """
    if training.schedule == "plateau" and valid is None:
        raise ConfigError("training.schedule: plateau needs validation dates; use cosine")
    accelerator = pick_device(device).type
    best = _Best(progress, description)
    devices = [torch.cuda.current_device()] if accelerator == "cuda" else []
    _check_size(build, description)
    with _quiet(), torch.random.fork_rng(devices), _enough_memory(description):
        torch.manual_seed(seed)
        net = build()
        found = _checkpoint(keep)
        if found is not None and found["callbacks"][_Saver.__qualname__]["over"]:
            best.load_state_dict(found["callbacks"][_Best.__qualname__])
        else:
            task = _Task(net, loss, samples, training, seed)
            told = logger() if logger else False
            _fit(task, valid, accelerator, best, keep, goes_on=found is not None, logger=told)
    net.load_state_dict(best.state)
    return net.cpu().eval(), best.curve


def _check_size(build: Callable[[], nn.Module], description: str) -> None:
    """Refuse a network of too many parameters before any memory is taken for it."""
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in build().parameters())
    if count > MOST_PARAMETERS:
        raise ConfigError(
            f"{description}: would have {count / 1e6:.0f} million parameters, more than "
            f"{MOST_PARAMETERS / 1e6:.0f}; lower width or depth"
        )


@contextmanager
def _enough_memory(description: str) -> Iterator[None]:
    """Say it in words if there is not."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        # of the CPU's allocator there is no type of its own
        lacking = isinstance(error, (MemoryError, torch.OutOfMemoryError))
        if not lacking and "allocate memory" not in str(error):
            raise
        raise ConfigError(
            f"{description}: does not fit into the memory; lower width, depth or training.batch"
        ) from None


def _checkpoint(keep: Path | None) -> dict[str, Any] | None:
    """What an interrupted training left, if it is whole."""
    if keep is not None:
        with suppress(ValueError, KeyError, TypeError):
            found = checkpoint.read(keep)
            if found["callbacks"].keys() >= {_Saver.__qualname__, _Best.__qualname__}:
                return found
    return None


def _fit(
    task: _Task,
    valid: Samples | Pool | None,
    accelerator: str,
    best: _Best,
    keep: Path | None,
    goes_on: bool,
    logger: Any,
) -> None:
    training = task.training_settings
    callbacks: list[Callback] = [best]
    if valid is not None:
        callbacks.append(EarlyStopping("valid", patience=training.patience, check_finite=False))
    if keep is not None:
        callbacks.append(_Saver(keep))
    exact = torch.are_deterministic_algorithms_enabled()
    warn = torch.is_deterministic_algorithms_warn_only_enabled()
    trainer = lightning.Trainer(
        accelerator=accelerator,
        devices=1,
        precision=training.precision,
        max_epochs=training.epochs,
        gradient_clip_val=training.clip,
        num_sanity_val_steps=-1,
        reload_dataloaders_every_n_epochs=1,
        deterministic="warn",
        logger=logger,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=callbacks,
        plugins=[checkpoint.SafeCheckpoints()],
    )
    try:
        trainer.fit(
            task,
            val_dataloaders=None if valid is None else _loader(valid, training.batch, None),
            ckpt_path=keep if goes_on else None,
        )
    finally:
        torch.use_deterministic_algorithms(exact, warn_only=warn)
