"""``python -m weatherpp.twin OUT.zarr --size small --seed 1``: make a twin archive."""

from __future__ import annotations

import argparse
import sys
import time

from pydantic import ValidationError

from weatherpp.errors import WeatherppError
from weatherpp.strict import fault_line
from weatherpp.twin import TwinConfig, generate


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m weatherpp.twin", description=__doc__)
    parser.add_argument("path", help="the Zarr store to write")
    parser.add_argument("--size", choices=["small", "full"], default="small")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--seed", type=int, default=1)
    for name in (
        "years",
        "dates-per-year",
        "members",
        "first-year",
        "limit-dates",
        "limit-members",
    ):
        parser.add_argument(f"--{name}", type=int, default=None)
    options = vars(parser.parse_args(arguments))
    path = options.pop("path")
    start = time.monotonic()

    def show(description: str, done: float, total: float) -> None:
        elapsed = time.monotonic() - start
        print(
            f"\r{description}: {done:.0f} of {total:.0f} dates, {elapsed:.0f} s", end="", flush=True
        )

    try:
        config = TwinConfig(**{key: value for key, value in options.items() if value is not None})
        generate(path, config, show if sys.stdout.isatty() else None)
    except ValidationError as error:
        print(f"error: --{fault_line(error, options)}", file=sys.stderr)
        return 2
    except WeatherppError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(f"{path}: {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
