"""Alerts to a real server on loopback, also to one that hangs, fails or is not there."""

from __future__ import annotations

import http.server
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from file_server import on_loopback
from night_cases import cycle_at, recipe_with, settings_of

from weatherpp.errors import ConfigError, InputError, LockedError
from weatherpp.operations.alerts import masked, tell
from weatherpp.operations.log import Log
from weatherpp.operations.nightly import run_nightly
from weatherpp.operations.scoring import Drifts
from weatherpp.operations.settings import Nightly
from weatherpp.pipeline.stages import alone
from weatherpp.strict import validate

SECRET = "hooks/s3cret?token=t0ken"


class Hook(http.server.BaseHTTPRequestHandler):
    """Notes what it is sent; ``ends`` tells a hanging answer to end."""

    heard: ClassVar[list[tuple[str, str | None, Any]]]
    status: ClassVar[int] = 200
    hangs: ClassVar[threading.Event | None] = None

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.heard.append((self.path, self.headers["Authorization"], json.loads(body)))
        if self.hangs is not None:
            self.hangs.wait(60)
        self.send_response(self.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def listening(status: int = 200, hangs: threading.Event | None = None) -> Iterator[Any]:
    hook = type("Own", (Hook,), {"heard": [], "status": status, "hangs": hangs})
    with on_loopback(hook) as place:
        yield place, hook


def settings_with(place: Path, url: str, **more: Any) -> Nightly:
    alerts = {"webhook": url, "timeout": "60s", **more}
    return validate(Nightly, recipe_with(place, alerts=alerts), "test")


def test_a_fault_is_told(place: Path) -> None:
    with listening() as (host, hook):
        settings = settings_with(place, f"http://me:pass%20word@{host}/{SECRET}")
        outcome = run_nightly(settings, place / "work", [cycle_at(9)], log=Log(quiet=True))
    assert isinstance(outcome.fault, InputError)
    ((path, authorization, content),) = hook.heard
    assert path == f"/{SECRET}"
    assert authorization == "Basic bWU6cGFzcyB3b3Jk"  # me:pass word
    assert content.pop("at").endswith("+00:00")
    assert content == {
        "job": "night",
        "state": "fault",
        "exit_code": 3,
        "cycles": ["2026-11-10T00"],
        "text": str(outcome.fault),
        "warnings": [],
        "shadow_warnings": [],
    }


def test_drift_is_told_and_a_good_night_is_not(tmp_path: Path) -> None:
    with listening() as (host, hook):
        settings = settings_with(tmp_path, f"http://{host}/")
        tell(settings, [cycle_at(0)], None, Drifts(), Log())
        assert hook.heard == []
        tell(settings, [cycle_at(0)], None, Drifts(("bias 3 against 0",), ("its",)), Log())
        tell(settings, [cycle_at(0)], None, Drifts(shadow=("bias 4 against 0",)), Log())
    (_, _, content), (_, _, other) = hook.heard
    assert (content["state"], content["exit_code"]) == ("drift", 0)
    assert content["warnings"] == ["bias 3 against 0"]
    assert content["shadow_warnings"] == ["its"]
    assert (other["state"], other["exit_code"]) == ("shadow-drift", 0)
    assert (other["warnings"], other["shadow_warnings"]) == ([], ["bias 4 against 0"])


def test_a_run_that_could_not_begin_is_told(place: Path) -> None:
    (place / "work").mkdir()
    with listening() as (host, hook), alone(place / "work", "--work"):
        settings = settings_with(place, f"http://{host}/")
        with pytest.raises(LockedError):
            run_nightly(settings, place / "work", [cycle_at(0)], log=Log(quiet=True))
    assert [content["exit_code"] for _, _, content in hook.heard] == [4]


def test_a_webhook_that_hangs_fails_or_is_gone_stops_nothing(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ends = threading.Event()
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        with listening(hangs=ends) as (slow, _), listening(status=500) as (broken, _):
            gone = f"127.0.0.1:{taken.getsockname()[1]}"
            for host in (slow, broken, gone):
                url = f"http://user:pa55@{host}/{SECRET}"
                settings = settings_with(place, url, timeout="1s" if host == slow else "60s")
                outcome = run_nightly(settings, place / "work", [cycle_at(9)])
                assert isinstance(outcome.fault, InputError)
            ends.set()
    said = capsys.readouterr().err
    assert f"http://{slow}/...: was not told (no answer within 1 s)" in said
    assert f"http://{broken}/...: was not told (HTTP status 500)" in said
    assert f"http://{gone}/...: was not told (Connection refused)" in said
    for secret in ("s3cret", "t0ken", "user", "pa55"):
        assert secret not in said


def test_addresses(place: Path) -> None:
    assert masked("https://a:b@example.org:8443/x/y?z=1") == "https://example.org:8443/..."
    for url in ("file:///etc/passwd", "example.org/x", "https://", "http://h:port/"):
        with pytest.raises(ConfigError, match=r"alerts\.webhook"):
            settings_with(place, url)
    assert settings_of(place).alerts.webhook is None
