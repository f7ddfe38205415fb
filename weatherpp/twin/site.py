"""Where an archive is made: a work folder beside the target, renamed at the end.

The work folder is ``.NAME.partial``, so that a store under its final name is whole. What an
interrupted run left there is used by the next one with the same identity.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import zarr

from weatherpp.errors import ConfigError
from weatherpp.files import write_whole


class Site:
    """The place of one archive.

    Parameters
    ----------
    path
        The store, ``NAME.zarr``.
    wanted
        All that decides its content, as plain containers.
    """

    def __init__(self, path: str | Path, wanted: Mapping[str, Any]) -> None:
        self.target = Path(path)
        text = json.dumps(wanted, sort_keys=True)
        self.identity = hashlib.sha256(text.encode()).hexdigest()[:32]
        self.work = self.target.with_name(f".{self.target.name}.partial")
        self.store = self.work / "store"

    def finished(self) -> bool:
        """Whether the archive is there already.

        Raises
        ------
        ConfigError
            Something else is.
        """
        if not self.target.exists():
            return False
        if self._found() == self.identity:
            return True
        raise ConfigError(
            f"{self.target}: exists and is not this archive; remove it or choose another name"
        )

    def _found(self) -> str | None:
        try:
            return str(zarr.open_group(self.target, mode="r").attrs["twin_identity"])
        except (OSError, KeyError, ValueError):
            return None

    def prepare(self, attrs: Mapping[str, Any], create: Callable[[Path], None]) -> None:
        """Create the empty store, unless an interrupted run left it whole.

        Parameters
        ----------
        attrs
            Of the root.
        create
            Writes the groups without their values into the store that it is given.

        Raises
        ------
        ConfigError
            The work folder was left by a run with another configuration.
        """
        marker = self.work / "prepared"
        if marker.exists():
            if marker.read_text(encoding="utf-8") != self.identity:
                raise ConfigError(
                    f"{self.work}: left by a run with another configuration; remove it"
                )
            return
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        root = zarr.open_group(self.store, mode="w", zarr_format=3)
        root.attrs.update(
            {**attrs, "weatherpp_version": _version(), "twin_identity": self.identity}
        )
        create(self.store)
        write_whole(marker, self.identity)

    def finish(self) -> None:
        """Seal the store and give it its name."""
        from weatherpp.data.archive import seal  # here: only a finished store needs it

        seal(self.store)
        os.replace(self.store, self.target)
        shutil.rmtree(self.work)


def _version() -> str:
    try:
        return version("weatherpp")
    except PackageNotFoundError:
        return "unknown"
