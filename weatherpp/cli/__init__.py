"""Command line: parse, call, print. Heavy imports happen inside the commands."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable

from weatherpp.cli import data, runs  # noqa: F401  each adds its commands
from weatherpp.cli.app import app
from weatherpp.errors import WeatherppError


def _guarded(call: Callable[[], None]) -> int:
    """Run and turn any failure into one line on standard error and an exit code."""
    try:
        call()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except WeatherppError as error:
        if os.environ.get("WEATHERPP_DEBUG"):
            raise
        print(f"weatherpp: {_one_line(error)}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("weatherpp: interrupted; run the same command again to go on", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 0
    except OSError as error:
        if os.environ.get("WEATHERPP_DEBUG"):
            raise
        where = f"{error.filename}: " if error.filename else ""
        print(f"weatherpp: {where}{error.strerror or _one_line(error)}", file=sys.stderr)
        return 1
    except Exception as error:
        if os.environ.get("WEATHERPP_DEBUG"):
            raise
        kind = type(error).__name__
        print(
            f"weatherpp: fault, {kind}: {_one_line(error)}; run again with "
            "'weatherpp --debug ...' and report the traceback",
            file=sys.stderr,
        )
        return 1
    return 0


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


def main() -> None:
    """Entry point of the ``weatherpp`` command."""
    for name in ("asyncio", "concurrent.futures"):
        # once a write has failed, others under way complain too, after the one line that tells it
        logging.getLogger(name).addFilter(lambda _: bool(os.environ.get("WEATHERPP_DEBUG")))
    sys.exit(_guarded(app))
