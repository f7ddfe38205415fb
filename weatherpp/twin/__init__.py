"""The embedded atmosphere: a quasi-geostrophic truth and an imperfect ensemble of it.

``generate(path, TwinConfig(size="small"))`` writes an archive; nothing is downloaded. Importing
this package does not import torch.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from weatherpp.twin.settings import TwinConfig

__all__ = ["TwinConfig", "generate"]


def generate(
    path: str | Path,
    config: TwinConfig,
    progress: Callable[[str, float, float], None] | None = None,
) -> None:
    """Make a twin archive, or finish one that was interrupted.

    See :func:`weatherpp.twin.archive.generate`.
    """
    from weatherpp.twin import archive

    archive.generate(path, config, progress)
