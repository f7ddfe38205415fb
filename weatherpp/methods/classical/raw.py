"""The ensemble as it is: the reference of every comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

import xarray as xr

from weatherpp import distribution
from weatherpp.methods.base import FitData, Method
from weatherpp.methods.classical.common import dist_attrs, target_members


class Raw(Method):
    """Members of the target field, unchanged; learns nothing."""

    name: ClassVar[str] = "raw"
    needs_truth: ClassVar[bool] = False

    def fit(self, data: FitData) -> Self:
        """Nothing to learn."""
        return self

    def predict(self, forecast: xr.Dataset) -> xr.Dataset:
        """Distribution of members, in the type of the forecast."""
        return distribution.members(
            target_members(forecast, self.target), **dist_attrs(self.target, self.name)
        )

    def _save(self, folder: Path) -> dict[str, Any]:
        return {}

    def _load(self, folder: Path, extra: dict[str, Any]) -> None:
        return
