"""What all pages share: their templates, styles and script, and how a page is written.

A file of the same name in a folder ``reports/`` of the working folder goes before a shipped one.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from pathlib import Path
from typing import Any

import jinja2

from weatherpp.data.shipped import own_and_shipped
from weatherpp.errors import WeatherppError
from weatherpp.files import partial_name
from weatherpp.report.labels import lead_text, percent

FILES = (
    *(f"templates/{name}" for name in ("base.html.j2", "report.html.j2", "index.html.j2")),
    *("templates/report.js", "styles/report.css", "styles/dark.css"),
)


def page_file(name: str) -> Path:
    """Where one of `FILES` is: the user's own, or the shipped one."""
    own, shipped = (folder / name for folder in own_and_shipped("reports"))
    return own if own.is_file() else shipped


def page_digest() -> str:
    """Hash of all that a page is made with beside the data."""
    hasher = hashlib.sha256()
    for name in FILES:
        hasher.update(page_file(name).read_bytes())
    return hasher.hexdigest()


def render_page(template: str, **content: Any) -> str:
    """A page from its template.

    All text is escaped, and a content security policy allows the page no network and no script
    but its own.
    """
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_source),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"base64": _base64, "png_size": _png_size, "unbroken": _unbroken}
    environment.filters |= {"lead": lead_text}
    environment.globals |= {"percent": percent}
    script = page_file("templates/report.js").read_text(encoding="utf-8")
    digest = hashlib.sha256(script.encode()).digest()
    return environment.get_template(template).render(
        **content,
        style=page_file("styles/report.css").read_text(encoding="utf-8"),
        dark_style=page_file("styles/dark.css").read_text(encoding="utf-8"),
        script=script,
        script_hash=f"sha256-{base64.b64encode(digest).decode()}",
    )


def write_page(text: str, path: Path) -> int:
    """Write a page under its final name once it is whole; returns its size in bytes.

    Raises
    ------
    WeatherppError
        The folder cannot be written to.
    """
    content = text.encode("utf-8")
    try:
        with partial_name(path) as partial:
            partial.write_bytes(content)
    except OSError as error:
        raise WeatherppError(f"{path}: the page cannot be written ({error.strerror})") from error
    return len(content)


def _source(name: str) -> str:
    return page_file(f"templates/{name}").read_text(encoding="utf-8")


def _base64(png: bytes) -> str:
    return base64.b64encode(png).decode("ascii")


def _unbroken(text: str) -> str:
    """Text in which a line never breaks between a number and its per cent sign."""
    return str(text).replace(" %", "\u00a0%")


def _png_size(png: bytes) -> tuple[int, int]:
    """Width and height from a PNG's header, so that the page does not jump while it loads."""
    width, height = struct.unpack(">II", png[16:24])
    return width, height
