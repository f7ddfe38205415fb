"""The one interface of every method, classical or neural, and the registry of methods.

A method is a class with ``fit`` and ``predict`` in scikit-learn's manner over xarray, and
``save``/``load`` to a *model folder*. It fits and predicts one target field.
"""

from __future__ import annotations

import importlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import pandas as pd
import xarray as xr
from pydantic import BaseModel

from weatherpp.errors import ConfigError, InputError
from weatherpp.files import file_digest, write_whole
from weatherpp.methods.card import CARD, model_card
from weatherpp.methods.recent import Recent
from weatherpp.recipe import Target, Tracking
from weatherpp.strict import Strict, digest, validate

FORMAT = 1  # of model folders; a folder that tells none has the first
Progress = Callable[[str, float, float], None]


def silent(description: str, done: float, total: float) -> None:
    """Progress callback that shows nothing."""


@dataclass(frozen=True)
class FitData:
    """What a method may learn from.

    Attributes
    ----------
    forecast
        Canonical forecast with the method's own members, all training and validation dates,
        all variables, levels and lead times of the archive; lazy.
    truth
        Analysis of the target field at valid time, dims (time, grid...), same dates as
        ``forecast``. None where there is no analysis (spread job only).
    truth_at
        The same for another lead time of the field, on those of the dates that may be learnt from
        there: they have an analysis, which lies before what the fit is tested on.
    full
        Target field of the full ensemble at the target lead, dims (time, number, grid...).
    static
        Static fields (``orog``, ``lsm``) that the archive has; may be empty.
    target
        The field to post-process.
    train, valid
        Initial dates; disjoint. ``valid`` may be empty.
    seed
        Decides everything random.
    device
        ``auto``, ``cpu`` or ``cuda``; for networks.
    progress
        Callback ``(description, done, total)``.
    cache
        Where fits of one run leave each other what is slow to read; None to keep nothing.
    keep
        Folder for what an interrupted fit goes on from; only this very fit writes there. None to
        start anew each time.
    tracking
        Where networks record their losses as they train; None for nowhere.
    name
        Of the fit in these records, such as ``demo/z500/mixed-5``.
    """

    forecast: xr.Dataset
    truth: xr.DataArray | None
    full: xr.DataArray
    static: xr.Dataset
    target: Target
    train: pd.DatetimeIndex
    valid: pd.DatetimeIndex
    seed: int = 1
    device: str = "auto"
    progress: Progress = silent
    cache: MutableMapping[str, Any] | None = None
    keep: Path | None = None
    tracking: Tracking | None = None
    name: str = ""
    truth_at: Callable[[Target], xr.DataArray] | None = None


class Method(ABC):
    """Base of all methods.

    Sub-classes set ``name`` and ``Settings``; ``needs_truth`` is False for those that learn
    from the ensemble alone; ``min_members`` is the least number of members they accept, 0 for
    those that look at none. Those with ``needs_recent`` must be given :attr:`recent` before they
    predict. One fit of those ``across_leads`` serves all lead times of a field, see :meth:`at`.

    Attributes
    ----------
    recent
        Pairs of forecast and analysis. A prediction makes use of those that have verified by its
        initial time, and of no others.
    """

    name: ClassVar[str]
    Settings: ClassVar[type[BaseModel]] = Strict
    needs_truth: ClassVar[bool] = True
    needs_recent: ClassVar[bool] = False
    across_leads: ClassVar[bool] = False
    min_members: ClassVar[int] = 1
    recent: Recent | None = None

    def __init__(self, target: Target, settings: Mapping[str, Any] | BaseModel | None = None):
        self.target = target
        if isinstance(settings, BaseModel):
            settings = settings.model_dump()
        self.settings: Any = validate(self.Settings, settings or {}, f"method {self.name}")

    @property
    def any_number(self) -> bool:
        """Whether predictions make sense with another number of members than it was fitted on."""
        return self.min_members == 0

    @abstractmethod
    def fit(self, data: FitData) -> Self:
        """Learn from ``data``; returns self."""

    @abstractmethod
    def predict(self, forecast: xr.Dataset) -> xr.Dataset:
        """Predictive distribution for a canonical forecast with the same kind of members.

        Returns
        -------
        Dataset in one of the forms of :mod:`weatherpp.distribution`, dims (time, grid...).
        """

    def at(self, target: Target) -> Method:
        """The same fit for another lead time, for methods ``across_leads``.

        Raises
        ------
        InputError
            It cannot serve it.
        """
        raise InputError(f"method {self.name} serves no lead time but {self.target.step}")

    @abstractmethod
    def _save(self, folder: Path) -> dict[str, Any]:
        """Write parameter files into ``folder``; return what else ``model.json`` must hold."""

    @abstractmethod
    def _load(self, folder: Path, extra: dict[str, Any]) -> None:
        """Undo :meth:`_save`."""

    def notes(self) -> list[str]:
        """What the fit found, for the model card; one line each."""
        return []

    def save(self, folder: Path, meta: Mapping[str, Any]) -> None:
        """Write the model folder: parameters, model card, and ``model.json``, which is last."""
        folder.mkdir(parents=True, exist_ok=True)
        content = {
            "format": FORMAT,
            "method": self.name,
            "target": self.target.model_dump(mode="json"),
            "settings": self.settings.model_dump(mode="json"),
            "parameters": self._save(folder),
            **meta,
        }
        summary = (type(self).__doc__ or "").split("\n\n")[0].strip()
        write_whole(folder / CARD, model_card(content, summary, self.notes()))
        card = folder / "model.json"
        content["files"] = {
            path.relative_to(folder).as_posix(): file_digest(path)
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path != card
        }
        content["digest"] = digest(content)
        write_whole(card, json.dumps(content, indent=2, sort_keys=True) + "\n")


REGISTRY: dict[str, str] = {
    "raw": "weatherpp.methods.classical.raw:Raw",
    "climatology": "weatherpp.methods.classical.climatology:Climatology",
    "bias": "weatherpp.methods.classical.bias:LocalBias",
    "running-bias": "weatherpp.methods.classical.running:RunningBias",
    "emos": "weatherpp.methods.classical.emos:LocalEmos",
    "idr": "weatherpp.methods.classical.idr:IsotonicRegression",
    "mbm": "weatherpp.methods.classical.mbm:MemberByMember",
    "quantile-mapping": "weatherpp.methods.classical.quantile_mapping:QuantileMapping",
    "ridge": "weatherpp.methods.classical.ridge:Ridge",
    "spread-regression": "weatherpp.methods.classical.spread:SpreadRegression",
    "spread-net": "weatherpp.methods.neural.spread:SpreadNet",
    "two-step": "weatherpp.methods.neural.two_step:TwoStep",
    "drn": "weatherpp.methods.neural.drn:Drn",
    "mean-net": "weatherpp.methods.neural.two_step:MeanNet",
    "mixed": "weatherpp.methods.neural.mixed:Mixed",
    "mixed-leads": "weatherpp.methods.neural.leads:MixedLeads",
}


def method_class(name: str) -> type[Method]:
    """Class of a registered method; imports it on first use.

    Raises
    ------
    ConfigError
        No method of that name.
    """
    if name not in REGISTRY:
        raise ConfigError(f"no method '{name}'; there are {', '.join(sorted(REGISTRY))}")
    module, _, attribute = REGISTRY[name].partition(":")
    cls: type[Method] = getattr(importlib.import_module(module), attribute)
    return cls


def read_card(folder: Path) -> dict[str, Any]:
    """Content of a model folder's ``model.json``.

    Raises
    ------
    InputError
        The folder is no model folder.
    """
    try:
        content = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        if isinstance(content, dict):
            without = {key: value for key, value in content.items() if key != "digest"}
            if content.get("digest") != digest(without):
                raise InputError(
                    f"{folder / 'model.json'}: is not what was fitted; fit or copy the model again"
                )
            _check_format(folder, content)
            return content
        reason = "model.json is no table"
    except OSError as error:
        reason = error.strerror or str(error)
    except (ValueError, RecursionError):
        reason = "model.json is no JSON"
    raise InputError(f"{folder}: not a model folder ({reason}); fit or copy the model again")


def _check_format(folder: Path, content: Mapping[str, Any]) -> None:
    found = content.get("format", FORMAT)
    if found != FORMAT:
        raise InputError(
            f"{folder}: a model folder of format {found}, written by weatherpp "
            f"{content.get('weatherpp', 'of another version')}; this one reads format {FORMAT}, so "
            "take that version or fit the model again"
        )


def _check_files(folder: Path, card: dict[str, Any]) -> None:
    files = card.get("files")
    for name, wanted in files.items() if isinstance(files, dict) else [("model.json", None)]:
        path = folder / name
        if not path.is_file():
            raise InputError(f"{path}: missing from the model folder; fit or copy it again")
        if file_digest(path) != wanted:
            raise InputError(f"{path}: is not what was fitted; fit or copy the model again")


def load_model(folder: str | Path) -> Method:
    """Read a model folder back.

    Raises
    ------
    InputError
        The folder is no model folder or is damaged.
    """
    folder = Path(folder)
    content = read_card(folder)
    _check_files(folder, content)
    try:
        target = validate(Target, content["target"], "target")
        method = method_class(content["method"])(target, content["settings"])
        method._load(folder, content["parameters"])
    except InputError:  # of a model inside, which names itself
        raise
    except KeyError as error:
        reason = f"{error} is missing"
    except (ConfigError, OSError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
    else:
        return method
    raise InputError(
        f"{folder}: not a model that this version of weatherpp can use ({reason}); fit it again"
    )
