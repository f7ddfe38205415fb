"""Records of trainings for the tools that show them, by Lightning's own loggers.

They get the losses of each epoch in the units of the loss function, and the settings of the
training. Nothing of a training depends on them. The packages are optional and imported when asked
for.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weatherpp.errors import ConfigError
from weatherpp.recipe import Tracking

if TYPE_CHECKING:
    from weatherpp.methods.base import FitData
    from weatherpp.methods.neural.build import Training

PACKAGES = {"tensorboard": ("tensorboard", "tensorboard"), "mlflow": ("mlflow", "mlflow-skinny")}


def check_tracking(tracking: Tracking) -> None:
    """Make sure, before any work, that the package is there.

    Raises
    ------
    ConfigError
        It is not.
    """
    module, package = PACKAGES.get(tracking.kind, ("", ""))
    if module and find_spec(module) is None:
        raise ConfigError(
            f"tracking.{tracking.kind} needs a package that is not installed; install it with "
            f"'pip install {package}', or use tracking: {{csv: FOLDER}}"
        )


def training_logger(data: FitData, number: int, training: Training) -> Callable[[], Any] | None:
    """What makes the Lightning logger for the network of that number, from 1 on; None without
    tracking.

    A folder gets ``RECIPE/TARGET/METHOD/network-1/version_0``, and ``version_1`` if that is there
    already; MLflow a run of the experiment ``RECIPE``.
    """
    if data.tracking is None:
        return None
    tracking, name = data.tracking, f"{data.name}/network-{number}"
    return lambda: _logger(tracking, name, training)


def _logger(tracking: Tracking, name: str, training: Training) -> Any:
    check_tracking(tracking)
    from lightning.pytorch import loggers

    logger: Any
    place = tracking.place
    try:
        if tracking.kind == "mlflow":
            experiment, _, run = name.partition("/")
            logger = loggers.MLFlowLogger(experiment, run, place)
        elif tracking.kind == "tensorboard":
            logger = loggers.TensorBoardLogger(place, name, default_hp_metric=False)
        else:
            Path(place).mkdir(parents=True, exist_ok=True)
            logger = loggers.CSVLogger(place, name, flush_logs_every_n_steps=1)
        logger.log_hyperparams(training.model_dump())
    except Exception as error:  # of many types, as the packages please
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise ConfigError(
            f"tracking.{tracking.kind}: {place} cannot be written to ({reason}); name another "
            "place, or leave tracking out"
        ) from None
    return logger
