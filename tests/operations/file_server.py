"""A real HTTP server on loopback that serves a folder, with ranges as in RFC 9110, and can fail."""

from __future__ import annotations

import functools
import hashlib
import http.server
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

Fault = str | Callable[[], object]


class Handler(http.server.SimpleHTTPRequestHandler):
    """``faults`` are what goes wrong with the next answers with content of GRIB or netCDF files:
    ``busy``, ``cut``, ``drip``, or something to do first. ``asked`` are (name, range) of them.
    Without ``knows_ranges`` it sends the whole file whatever is asked for."""

    faults: ClassVar[list[Fault]]
    asked: ClassVar[list[tuple[str, str]]]
    knows_ranges = True
    down = False

    def do_HEAD(self) -> None:
        self.answer(head=True)

    def do_GET(self) -> None:
        self.answer(head=False)

    def answer(self, head: bool) -> None:
        file = Path(self.translate_path(self.path))
        if self.down:
            self.send_error(503)
        elif not file.is_file():
            super().do_HEAD() if head else super().do_GET()
        else:
            self.give(file, head)

    def give(self, file: Path, head: bool) -> None:
        fault: Fault = ""
        if not head and file.suffix in (".grib2", ".nc"):
            self.asked.append((file.name, self.headers["Range"] or ""))
            fault = self.faults.pop(0) if self.faults else ""
        if callable(fault):
            fault()
            fault = ""
        if fault == "busy":
            self.send_error(503)
            return
        content = file.read_bytes()
        tag = f'"{hashlib.sha256(content).hexdigest()}"'
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers["Range"] or "")
        part = content
        if asked and self.knows_ranges and self.headers["If-Range"] in (None, tag):
            first, last = int(asked[1]), int(asked[2] or len(content) - 1)
            part = content[first : last + 1]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(part)))
        self.send_header("ETag", tag)
        self.send_header("Last-Modified", self.date_time_string(int(file.stat().st_mtime)))
        self.end_headers()
        if not head:
            self.send(part, str(fault))

    def send(self, part: bytes, fault: str) -> None:
        if fault == "drip":
            step = max(len(part) // 50, 1)
            for at in range(0, len(part), step):
                self.wfile.write(part[at : at + step])
                self.wfile.flush()
                time.sleep(0.02)
        elif fault == "cut":
            self.wfile.write(part[: len(part) // 2])
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
        else:
            self.wfile.write(part)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def on_loopback(handler: Callable[..., Any]) -> Iterator[str]:
    """Host and port of a server that runs meanwhile."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"127.0.0.1:{running.server_port}"
        finally:
            running.shutdown()
            thread.join()


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, type[Handler]]]:
    """URL of a server of a folder, and its handler."""
    own: dict[str, Any] = {"faults": [], "asked": []}
    handler = type("Own", (Handler,), own)
    serve = functools.partial(handler, directory=str(folder))
    with on_loopback(serve) as place:
        yield f"http://{place}", handler
