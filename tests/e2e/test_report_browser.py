"""The report in a real browser: no faults, no network, and its few controls work."""

from __future__ import annotations

import base64
import importlib.util
import io
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from weatherpp.report.html import write_report

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="no Chromium with chromedriver is installed"
)
ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


def sample_module() -> Any:
    path = Path(__file__).parents[1] / "report" / "report_sample.py"
    spec = importlib.util.spec_from_file_location("report_sample", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(sample_module().report(), path)
    return path.as_uri()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for argument in ARGUMENTS:
        options.add_argument(argument)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def page(browser: Any, address: str) -> Any:
    """The report freshly opened at desktop size in light mode."""
    show(browser, width=1280, height=900)
    browser.get(address)
    return browser


def show(browser: Any, *, width: int, height: int, dark: bool = False, media: str = "") -> None:
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": [scheme]})


def test_opens_from_disk_without_errors_or_requests(page: Any, address: str) -> None:
    page.get_log("performance")
    page.get_log("browser")
    page.get(address)
    assert page.title == "Two-day forecasts from five members"
    assert page.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    requested = [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]
    outside = [url for url in requested if url != address and not url.startswith("data:")]
    assert address in requested
    assert outside == []


def test_images_are_whole(page: Any) -> None:
    widths = page.execute_script(
        "return [...document.querySelectorAll('figure img')].map((i) => i.naturalWidth)"
    )
    assert len(widths) >= 7
    assert min(widths) > 500


def test_internal_links_resolve(page: Any) -> None:
    dead = page.execute_script(
        "return [...document.links].map((a) => a.getAttribute('href'))"
        ".filter((h) => !h.startsWith('#') || !document.getElementById(h.slice(1)))"
    )
    assert dead == []
    page.find_element("css selector", "nav a[href='#scores']").click()
    assert page.current_url.endswith("#scores")


def test_a_head_sorts_its_column_both_ways(page: Any) -> None:
    def column() -> list[str]:
        return page.execute_script(
            "return [...document.querySelectorAll('#scores-1 tbody tr')]"
            ".map((row) => row.cells[3].dataset.order)"
        )

    heads = page.find_elements("css selector", "#scores-1 thead button")
    page.execute_script("arguments[0].click()", heads[3])
    values = [float(value) for value in column() if value]
    assert values == sorted(values)
    assert column()[-1] == ""  # missing ones last
    state = "return document.querySelectorAll('#scores-1 th')[3].getAttribute('aria-sort')"
    assert page.execute_script(state) == "ascending"
    page.execute_script("arguments[0].click()", heads[3])
    values = [float(value) for value in column() if value]
    assert values == sorted(values, reverse=True)
    assert column()[-1] == ""
    assert page.execute_script(state) == "descending"
    page.execute_script("arguments[0].click()", heads[0])
    first = page.execute_script("return document.querySelector('#scores-1 tbody th').innerText")
    assert first == "climatology"


def test_a_figure_enlarges_by_keyboard_and_escape_closes(page: Any) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    opened = "return document.querySelector('dialog').open"
    button = page.find_element("css selector", "figure.map button.zoom")
    page.execute_script("arguments[0].focus()", button)
    ActionChains(page).send_keys(Keys.ENTER).perform()
    assert page.execute_script(opened)
    shown = "return document.querySelector('dialog img').naturalWidth"
    assert page.execute_script(shown) > 1000
    alt = page.execute_script("return document.querySelector('dialog img').alt")
    assert alt.startswith("Nine maps")
    ActionChains(page).send_keys(Keys.ESCAPE).perform()
    assert not page.execute_script(opened)
    assert page.switch_to.active_element == button
    button.click()
    assert page.execute_script(opened)
    page.find_element("css selector", "dialog .close").click()
    assert not page.execute_script(opened)


def luminance(page: Any) -> float:
    """Mean brightness of a screenshot, 0 to 255."""
    shot = page.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
    image = Image.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("L")
    return float(np.asarray(image).mean())


def test_dark_mode_is_dark(page: Any) -> None:
    light = luminance(page)
    show(page, width=1280, height=900, dark=True)
    assert light > 200
    assert luminance(page) < 70


@pytest.mark.parametrize("dark", [False, True])
def test_text_has_contrast(page: Any, dark: bool) -> None:
    """At least 4.5 to 1, as the web's accessibility guidelines ask for."""
    show(page, width=1280, height=900, dark=dark)
    worst = page.execute_script(
        """
        const light = (text) => {
          const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255)
            .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const behind = (element) => {
          for (let e = element; e; e = e.parentElement) {
            const colour = getComputedStyle(e).backgroundColor;
            if (colour !== "rgba(0, 0, 0, 0)") return colour;
          }
        };
        const names = "p, a, li, th, td, small, dt, dd, h2, figcaption";
        const texts = [...document.querySelectorAll(names)];
        return texts.filter((e) => e.innerText && !e.matches(".skip")).map((e) => {
          const pair = [light(getComputedStyle(e).color), light(behind(e))].sort((a, b) => b - a);
          return [(pair[0] + 0.05) / (pair[1] + 0.05), e.innerText];
        }).sort((a, b) => a[0] - b[0])[0];
        """
    )
    assert worst[0] >= 4.5, worst


@pytest.mark.parametrize("width", [360, 768])
def test_narrow_screens_need_no_sideways_scrolling(page: Any, width: int) -> None:
    show(page, width=width, height=740)
    wide = page.execute_script(
        "return [document.documentElement.scrollWidth, document.body.scrollWidth]"
    )
    assert max(wide) <= width


def test_touch_targets_are_large_enough_on_a_phone(page: Any) -> None:
    show(page, width=360, height=740)
    small = page.execute_script(
        "return [...document.querySelectorAll('nav a, thead button, summary')]"
        ".filter((e) => e.getClientRects().length && e.getBoundingClientRect().height < 24)"
        ".map((e) => e.innerText)"
    )
    assert small == []


def test_prints_to_pdf_with_folded_parts_open(page: Any) -> None:
    printed = page.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    pdf = base64.b64decode(printed["data"])
    assert pdf.startswith(b"%PDF")
    assert len(pdf) > 50_000
    page.execute_script("dispatchEvent(new Event('beforeprint'))")
    folded = "return document.querySelectorAll('details:not([open])').length"
    assert page.execute_script(folded) == 0
    page.execute_script("dispatchEvent(new Event('afterprint'))")
    assert page.execute_script(folded) == 2
