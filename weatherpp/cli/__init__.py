"""Command line: parse, call, print. Heavy imports happen inside the commands."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from typing import Any

import typer

from weatherpp.cli import data, evaluate, events, nightly, runs  # noqa: F401  each adds its commands
from weatherpp.cli.app import app
from weatherpp.errors import ConfigError, WeatherppError

# typer brings its own copy of click in some versions; this is the one that it raises
UsageError: Any = typer.BadParameter.__bases__[0]
INTERRUPTED = 130


def _guarded(call: Callable[[], int | None]) -> int:
    """Run and turn any failure into one line on standard error and an exit code."""
    try:
        code = call() or 0
        if code == INTERRUPTED:  # how typer tells it
            raise KeyboardInterrupt
        return code
    except UsageError as error:
        return _usage(error)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except WeatherppError as error:
        if os.environ.get("WEATHERPP_DEBUG"):
            raise
        print(f"weatherpp: {_one_line(error)}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("weatherpp: interrupted; run the same command again to go on", file=sys.stderr)
        return INTERRUPTED
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


def _usage(error: Any) -> int:
    """One line for wrong usage, with where to look; the help if no command was given."""
    where = error.ctx.command_path if error.ctx is not None else "weatherpp"
    message = str(error.format_message())
    if "\n" in message:  # the help itself
        print(message)
    else:
        print(f"weatherpp: {_one_line(message).rstrip('.')}; see '{where} --help'", file=sys.stderr)
    return ConfigError.exit_code


def _one_line(error: object) -> str:
    return " ".join(str(error).split())


def main() -> None:
    """Entry point of the ``weatherpp`` command."""
    for name in ("asyncio", "concurrent.futures"):
        # once a write has failed, others under way complain too, after the one line that tells it
        logging.getLogger(name).addFilter(lambda _: bool(os.environ.get("WEATHERPP_DEBUG")))
    sys.exit(_guarded(lambda: app(standalone_mode=False)))
