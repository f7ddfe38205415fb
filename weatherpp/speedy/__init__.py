"""A second embedded atmosphere: the primitive-equation model SPEEDY, true and imperfect.

``generate(path, SpeedyConfig(size="small"))`` writes an archive; nothing is downloaded. It needs
the extra ``weatherpp[speedy]``; importing this package needs neither that nor torch.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from weatherpp.errors import ConfigError
from weatherpp.speedy.settings import SpeedyConfig

__all__ = ["SpeedyConfig", "generate", "installed"]


def installed() -> bool:
    """Whether the extra ``weatherpp[speedy]`` is there."""
    return find_spec("jcm") is not None


def generate(
    path: str | Path,
    config: SpeedyConfig,
    progress: Callable[[str, float, float], None] | None = None,
) -> None:
    """Make a SPEEDY archive, or finish one that was interrupted.

    See :func:`weatherpp.speedy.archive.generate`.

    Raises
    ------
    ConfigError
        The extra is not installed, and what that function raises.
    """
    if not installed():
        raise ConfigError("source.speedy needs the extra: pip install 'weatherpp[speedy]'")
    from weatherpp.speedy import archive

    archive.generate(path, config, progress)
