"""Training of one network: a small Lightning task, the best weights kept in memory.

No checkpoint files are written or read, so no pickle is involved. An interrupted fit starts anew
and, by its seed, arrives at the same weights.
"""

from __future__ import annotations

import copy
import logging
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader

from weatherpp.errors import WeatherppError
from weatherpp.methods.base import Progress
from weatherpp.methods.neural.build import Curve, Training, pick_device
from weatherpp.methods.neural.samples import Batch, Samples

Loss = Callable[[Tensor, Batch], Tensor]


class _Task(lightning.LightningModule):
    """Network, its running mean, loss, optimiser and schedule."""

    def __init__(self, net: nn.Module, loss: Loss, training: Training, steps: int):
        super().__init__()
        self.net, self.loss, self.training_settings, self.steps = net, loss, training, steps
        mean = get_ema_multi_avg_fn(training.average)  # type: ignore[no-untyped-call]
        self.mean = AveragedModel(net, multi_avg_fn=mean)

    def training_step(self, batch: Batch, _: int) -> Tensor:
        loss = self.loss(self.net(batch["x"]), batch)
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
        warm = max(1.0, settings.warm_up * self.steps)

        def rate(step: int) -> float:
            if step < warm:
                return (step + 1) / (warm + 1)
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

    def _keep(self, module: Any) -> None:
        self.state = copy.deepcopy(module.mean.module.state_dict())

    def on_validation_end(self, trainer: Any, module: Any) -> None:
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


def _loader(samples: Samples, batch: int, seed: int | None) -> DataLoader[Batch]:
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    return DataLoader(
        samples,
        batch_size=batch,
        shuffle=seed is not None,
        generator=generator,
        # the data set gives whole batches
        collate_fn=_as_is,
    )


def _as_is(batch: Any) -> Any:
    return batch


def train(
    build: Callable[[], nn.Module],
    loss: Loss,
    samples: Samples,
    valid: Samples | None,
    training: Training,
    *,
    seed: int,
    device: str = "auto",
    progress: Progress,
    description: str = "training",
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

    Returns
    -------
    Network with the best weights, on the CPU, in evaluation mode; and the training curve: epoch,
    training loss, validation loss. Epoch 0 is the untrained network.

    Raises
    ------
    WeatherppError
        The loss becomes NaN or infinite.
    """
    accelerator = pick_device(device).type
    best = _Best(progress, description)
    callbacks: list[Callback] = [best]
    if valid is not None:
        callbacks.append(EarlyStopping("valid", patience=training.patience, check_finite=False))
    batches = math.ceil(len(samples) / training.batch)
    devices = [torch.cuda.current_device()] if accelerator == "cuda" else []
    exact = torch.are_deterministic_algorithms_enabled()
    warn = torch.is_deterministic_algorithms_warn_only_enabled()
    with _quiet(), torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        net = build()
        task = _Task(net, loss, training, steps=batches * training.epochs)
        trainer = lightning.Trainer(
            accelerator=accelerator,
            devices=1,
            max_epochs=training.epochs,
            gradient_clip_val=training.clip,
            num_sanity_val_steps=-1,
            deterministic="warn",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=callbacks,
        )
        try:
            trainer.fit(
                task,
                _loader(samples, training.batch, seed),
                None if valid is None else _loader(valid, training.batch, None),
            )
        finally:
            torch.use_deterministic_algorithms(exact, warn_only=warn)
    net.load_state_dict(best.state)
    return net.cpu().eval(), best.curve
