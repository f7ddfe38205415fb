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
    assert len(widths) >= 12
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
        "return [...document.querySelectorAll('nav a, thead button, summary, form label')]"
        ".filter((e) => e.getClientRects().length && e.getBoundingClientRect().height < 24)"
        ".map((e) => e.innerText)"
    )
    assert small == []


def shown(page: Any, selector: str) -> int:
    """How many elements are seen on the screen."""
    return int(
        page.execute_script(
            "return [...document.querySelectorAll(arguments[0])]"
            ".filter((e) => e.getClientRects().length).length",
            selector,
        )
    )


def choose(page: Any, name: str, text: str) -> None:
    from selenium.webdriver.support.ui import Select

    Select(
        page.find_element("css selector", f"form.switches [name={name}]")
    ).select_by_visible_text(text)


def test_a_variable_is_chosen_and_stays_in_the_address(page: Any, address: str) -> None:
    everything = shown(page, "figure")
    choose(page, "variable", "t850")
    assert shown(page, "#scores-1") == 0  # z500
    assert shown(page, "#scores-3") == 1  # t850
    assert 0 < shown(page, "figure") < everything
    assert page.current_url == f"{address}#variable=t850"
    page.find_element("css selector", "nav a[href='#scores']").click()
    assert page.current_url == f"{address}#scores&variable=t850"
    kept = page.current_url
    page.get("about:blank")
    page.get(kept)
    assert shown(page, "#scores-1") == 0
    assert page.execute_script("return scrollY") > 0
    page.find_element("css selector", "form.switches [type=reset]").click()
    assert shown(page, "figure") == everything
    assert page.current_url == f"{address}#scores"


def test_members_and_methods_are_chosen_by_keyboard(page: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    assert shown(page, "#scores-1 tbody tr") == 6
    choose(page, "members", "5")
    # mixed sees five members; climatology sees none, so that no choice of members is against it
    assert shown(page, "#scores-1 tbody tr") == 2
    choose(page, "members", "all")
    page.find_element("css selector", "form.switches summary").send_keys(Keys.ENTER)
    for name in ("raw", "mixed"):
        box = page.find_element("css selector", f"form.switches input[value={name}]")
        box.send_keys(Keys.SPACE)
    assert shown(page, "#scores-1 tbody tr") == 4
    assert page.current_url.endswith("#methods=raw-full,climatology,emos,mbm")
    output = page.find_element("css selector", "form.switches output")
    assert "4 of 6 methods" in output.text
    training = "return document.querySelector('#part-2 .none').hidden"
    assert page.execute_script(training) is False  # the only curve there is of mixed


def test_a_choice_that_is_not_there_shows_everything(page: Any, address: str) -> None:
    everything = shown(page, "figure")
    page.get("about:blank")
    page.get(f"{address}#variable=%E0%A4%A&lead=x&methods=emos")
    assert shown(page, "#scores-1 tbody tr") == 1
    assert shown(page, "figure") == everything - 1  # the training of mixed


def test_the_theme_is_switched_and_stays_in_the_address(page: Any, address: str) -> None:
    button = page.find_element("css selector", "form.switches .theme")
    button.click()
    assert luminance(page) < 70
    assert button.get_attribute("aria-pressed") == "true"
    assert page.current_url == f"{address}#theme=dark"
    button.click()
    assert luminance(page) > 200
    show(page, width=1280, height=900, dark=True)
    assert luminance(page) > 200  # the reader's choice goes before the system's


def test_without_scripts_everything_is_shown(browser: Any, address: str) -> None:
    show(browser, width=1280, height=900)
    browser.get("about:blank")  # else this were a jump within the page that is open
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(f"{address}#variable=t850")
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert shown(browser, "#scores-1") == shown(browser, "#scores-3") == 1
    assert shown(browser, "form.switches") == 0


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False)])
def test_axe_finds_no_serious_fault(page: Any, width: int, dark: bool) -> None:
    """Accessibility by axe-core, https://github.com/dequelabs/axe-core."""
    from axe_core_python.base import AXE_SCRIPT

    show(page, width=width, height=800, dark=dark)
    page.execute_script("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    page.set_script_timeout(300)
    page.execute_script(AXE_SCRIPT)
    found = page.execute_async_script(
        "const done = arguments[arguments.length - 1];"
        "axe.run().then((r) => done(r.violations), (e) => done([{impact: 'critical', id: `${e}`}]))"
    )
    grave = [
        (fault["id"], [node["html"][:200] for node in fault.get("nodes", [])])
        for fault in found
        if fault["impact"] in ("serious", "critical")
    ]
    assert grave == []


def test_prints_to_pdf_whole(page: Any) -> None:
    from pypdf import PdfReader

    choose(page, "variable", "t850")  # paper shows everything all the same
    show(page, width=1280, height=900, dark=True, media="")
    printed = page.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    pages = PdfReader(io.BytesIO(base64.b64decode(printed["data"]))).pages
    text = " ".join(" ".join(page.extract_text() for page in pages).split())
    for words in (
        *("Claims", "In words", "Gains", "Scores", "Calibration", "Case of 3 March 2020"),
        *("z500, 48 h, tropics", "t850, 48 h, tropics", "Training", "How it was made"),
        "seed: 7",  # in a folded part
    ):
        assert words in text, words
    assert "Show all" not in text
    assert sum(len(page.images) for page in pages) >= 10
    assert page.execute_script("return document.querySelectorAll('details[open]').length") == 0
