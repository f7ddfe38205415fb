"""A word to whoever is on duty: JSON sent to a URL on a fault or on drift.

It never stops or delays the job for longer than the recipe allows, and of its URL, which may
be a secret, only the host is ever shown.
"""

from __future__ import annotations

import base64
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import unquote, urlsplit, urlunsplit

import pandas as pd

from weatherpp.errors import WeatherppError
from weatherpp.operations.cycles import cycle_name
from weatherpp.operations.log import Log
from weatherpp.operations.scoring import Drifts
from weatherpp.operations.settings import Nightly
from weatherpp.recipe import parse_step


def tell(
    settings: Nightly,
    cycles: Sequence[pd.Timestamp],
    fault: BaseException | None,
    drifts: Drifts,
    log: Log,
) -> None:
    """Send what went wrong, if anything did and the recipe names a webhook.

    The body is an object with ``job``, ``state`` (``fault``, ``drift``, or ``shadow-drift`` if only
    versions drift that nobody is shown), ``exit_code``, ``cycles``, ``text``, ``warnings`` and
    ``shadow_warnings`` (on drift), and ``at``, the time in UTC.

    Parameters
    ----------
    settings, cycles
        Of the run.
    fault, drifts
        What it came to.
    log
        Told if the message could not be sent.
    """
    url = settings.alerts.webhook
    if url is None or (fault is None and not drifts.all):
        return
    code = 0 if fault is None else getattr(fault, "exit_code", WeatherppError.exit_code)
    content = {
        "job": settings.name,
        "state": "fault" if fault else "drift" if drifts.own else "shadow-drift",
        "exit_code": code,
        "cycles": [cycle_name(cycle) for cycle in cycles],
        "text": "" if fault is None else " ".join(str(fault).split()),
        "warnings": list(drifts.own),
        "shadow_warnings": list(drifts.shadow),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    seconds = parse_step(settings.alerts.timeout).total_seconds()
    failure = _send(url, json.dumps(content).encode(), seconds)
    if failure:
        log.say("", "webhook", "warning", f"{masked(url)}: was not told ({failure})")


def masked(url: str) -> str:
    """A URL without what may be secret in it: user, password, path and query."""
    parts = urlsplit(url)
    port = "" if parts.port is None else f":{parts.port}"
    return f"{parts.scheme}://{parts.hostname}{port}/..."


def _send(url: str, body: bytes, seconds: float) -> str:
    """Post, in so many seconds at most; returns what went wrong."""
    failures = [f"no answer within {seconds:g} s"]

    def post() -> None:
        try:
            with urllib.request.urlopen(_request(url, body), timeout=seconds):
                failures.clear()
        except urllib.error.HTTPError as error:
            failures[:] = [f"HTTP status {error.code}"]
        except (OSError, ValueError) as error:  # whose text may hold the URL
            reason = getattr(error, "reason", None)
            known = reason if isinstance(reason, OSError) else error
            if not isinstance(known, TimeoutError):
                failures[:] = [getattr(known, "strerror", None) or type(known).__name__]

    # the timeout of a socket starts anew with every byte, so that a slow server could go on for
    # ever; a daemon does not keep the process
    sending = threading.Thread(target=post, daemon=True)
    sending.start()
    sending.join(seconds)
    return failures[0] if failures else ""


def _request(url: str, body: bytes) -> urllib.request.Request:
    parts = urlsplit(url)
    headers = {"Content-Type": "application/json"}
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    return urllib.request.Request(bare, data=body, headers=headers, method="POST")
