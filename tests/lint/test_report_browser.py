"""The report in a real browser, without a network: ``pytest -m browser``.

Needs selenium and Chromium with its driver (Debian: ``chromium``, ``chromium-driver``).
"""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lint_rules.demo import ENGINE
from mla_guard.cli import main
from tests.lint.hostile import HOSTILE_NAME, HOSTILE_SOURCE

pytestmark = pytest.mark.browser

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two releases of the bundled engine with a hostile file, the last one less a fault."""
    here = tmp_path_factory.mktemp("report")
    for release in ("0.1", "0.2"):
        shutil.copytree(ENGINE, here / release / "engine")
        (here / release / "engine" / HOSTILE_NAME).write_text(HOSTILE_SOURCE, encoding="utf-8")
    triton = here / "0.2" / "engine" / "triton.py"
    text = triton.read_text(encoding="utf-8")
    first, second = [m.start() for m in re.finditer(r"    def replay_cuda_graph", text)]
    triton.write_text(text[:first] + text[second:], encoding="utf-8")
    page = here / "report.html"
    assert main(["report", str(here / "0.1"), str(here / "0.2"), "--html", str(page)]) == 0
    return page


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(
        options=options, service=Service(shutil.which("chromedriver") or "chromedriver")
    )
    yield driver
    driver.quit()


class Screen:
    """A page that was just opened, as somebody with a keyboard uses it."""

    def __init__(self, driver: Any, page: Path, width: int, scheme: str) -> None:
        self.driver = driver
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme_wanted = [{"name": "prefers-color-scheme", "value": scheme}]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme_wanted})
        driver.get("about:blank")
        driver.get(page.as_uri())

    def run(self, script: str) -> Any:
        """What the JavaScript expression is."""
        return self.driver.execute_script(f"return ({script})")

    def press(self, *keys: str) -> None:
        """Keys as names of ``selenium.webdriver.Keys``, or characters, one after the other."""
        from selenium.webdriver import ActionChains, Keys

        for key in keys:
            ActionChains(self.driver).send_keys(getattr(Keys, key, key)).perform()

    def go(self, view: str) -> None:
        self.driver.execute_script(f"location.hash = '#{view}'")
        assert self.waited(f"document.querySelector('#view-{view}').hidden === false")

    def waited(self, script: str) -> bool:
        """Whether the expression becomes true before long: events need a moment."""
        from selenium.webdriver.support.ui import WebDriverWait

        return bool(WebDriverWait(self.driver, 5).until(lambda _: self.run(script)))

    def tab_to(self, script: str) -> None:
        """Tab until the expression on the focused element ``e`` holds."""
        for _ in range(60):
            self.press("TAB")
            if self.run(f"(e => {script})(document.activeElement)"):
                return
        raise AssertionError(f"no element with {script} is reached by the tab key")

    def texts(self, selector: str) -> list[str]:
        found: list[str] = self.run(
            f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)"
        )
        return found


@pytest.fixture
def screen(chrome: Any, report: Path) -> Iterator[Screen]:
    yield Screen(chrome, report, 1280, "light")
    assert [entry["message"] for entry in chrome.get_log("browser")] == []
    assert chrome.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert chrome.execute_script("return [window.owned, document.images.length]") == [None, 0]


SHOWN = "#view-findings tbody tr"


def test_every_view_opens(screen: Screen) -> None:
    views = {"hierarchy": ".node", "matrix": "td", "findings": "tr", "history": "tr", "rules": "tr"}
    assert screen.run("document.title") == "mla-guard report: 0.2"
    for view, part in views.items():
        screen.go(view)
        assert len(screen.texts(f"#view-{view} {part}")) > 5
        assert screen.texts("nav [aria-current=page]")[0].lower().startswith(view)


def test_the_slash_focuses_the_search_which_filters(screen: Screen) -> None:
    screen.go("findings")
    everything = screen.texts(SHOWN)
    screen.press("/", *"mla101 trtllm")
    assert screen.run("document.activeElement.id") == "search"
    assert screen.run("document.getElementById('search').value") == "mla101 trtllm"
    assert screen.texts(SHOWN) == []
    screen.press(*["BACKSPACE"] * 7)
    expected = [text for text in everything if "MLA101" in text]
    assert len(expected) == 2
    assert screen.texts(SHOWN) == expected
    assert screen.texts("#said") == [f"2 of {len(everything)} findings"]
    screen.press("ESCAPE")
    assert screen.texts(SHOWN) == everything


def test_a_finding_opens_by_keyboard_and_escape_closes_it(screen: Screen) -> None:
    screen.tab_to("e.hash === '#findings'")
    screen.press("ENTER")
    screen.tab_to("e.hash && e.hash.startsWith('#finding-')")
    opened = screen.run("document.activeElement.textContent")
    screen.press("ENTER")
    assert screen.waited("document.querySelector('dialog').open")
    assert screen.texts("dialog .message") == [opened]
    lines = screen.texts("dialog .here")
    marks = screen.texts("dialog .here mark")
    assert len(lines) == len(screen.texts("dialog figure")) == len(marks)
    assert all(mark in line for mark, line in zip(marks, lines, strict=True))
    screen.tab_to("e.hash && e.hash.startsWith('#rule-')")
    screen.press("ENTER")
    assert screen.waited("document.querySelector('dialog .manual') !== null")
    assert screen.texts("dialog .manual h3")[:2] == ["What it does", "Why is this bad?"]
    screen.press("ESCAPE")
    assert screen.waited("!document.querySelector('dialog').open && location.hash === '#findings'")
    assert screen.run("document.activeElement.textContent") == opened


def test_arrows_move_in_the_matrix_and_enter_opens_a_cell(screen: Screen) -> None:
    screen.go("matrix")
    screen.tab_to("e.closest('.matrix') !== null")
    assert screen.run("document.querySelectorAll('#view-matrix [tabindex=\"0\"]').length") == 1
    screen.press("ARROW_DOWN", "ARROW_DOWN", "ARROW_RIGHT")
    name = screen.run("document.activeElement.parentNode.cells[0].firstChild.textContent")
    label = screen.run("document.activeElement.getAttribute('aria-label')")
    assert label == f"{name}, init_forward_metadata: implements, 1 warning"
    screen.press("ENTER")
    assert screen.waited("document.querySelector('dialog').open")
    assert screen.texts("#sheet-title") == [f"{name}.init_forward_metadata"]
    screen.press("ESCAPE")
    assert screen.waited("document.activeElement.closest('td') !== null")
    assert screen.run("document.activeElement.getAttribute('aria-label')") == label


def test_the_matrix_filters_and_sorts(screen: Screen) -> None:
    screen.go("matrix")
    rows = "#view-matrix [role=grid] tbody th"
    names = screen.texts(rows)
    drifting = "[...document.querySelectorAll('.chip')].find(e => e.textContent.includes('drifts'))"
    screen.run(f"{drifting}.click()")
    assert [n.split()[0] for n in screen.texts(rows)] == ["HostileBackend", "TRTLLMMLABackend"]
    assert screen.texts("[role=grid] td:not(.off)") == ["D", "D"]
    screen.run(f"{drifting}.click()")
    assert screen.texts(rows) == names
    screen.run("document.querySelector('[data-sort=\"6\"]').click()")
    column = screen.texts("[role=grid] td[data-column='6']")
    assert column[0] == "D"
    assert column == sorted(column, key="D·rdiI".index)
    screen.press("/", *"forward_decode")
    assert screen.texts("[role=grid] .column") == ["forward_decode"]
    assert len(screen.texts(rows)) == len(names)


def test_the_tree_folds_and_names_what_wrappers_hold(screen: Screen) -> None:
    screen.tab_to("e.matches('.node')")
    nodes = len(screen.texts(".node"))
    screen.press("ARROW_LEFT")
    assert len(screen.texts(".node")) == 1
    assert screen.run("document.activeElement.getAttribute('aria-expanded')") == "false"
    screen.press("ARROW_RIGHT", "END", "HOME", "ARROW_DOWN")
    assert len(screen.texts(".node")) == nodes
    screen.press("ENTER")
    assert screen.waited("document.querySelector('dialog').open")
    screen.press("ESCAPE")
    assert "◇ prefill_backend: AttentionBackend" in " ".join(screen.texts(".port text"))
    label = "map(e => e.getAttribute('aria-label').split(',')[0])"
    names = screen.run(f"[...document.querySelectorAll('.node')].{label}")
    screen.press("HOME", *["ARROW_DOWN"] * names.index("PhaseBackend"))
    lit = screen.run(f"[...document.querySelectorAll('.node.lit')].{label}")
    assert lit == ["AttentionBackend", "PhaseBackend"]
    assert len(screen.texts(".held.lit")) == 2


def test_the_history_shows_what_is_gone(screen: Screen) -> None:
    screen.go("history")
    screen.run("(s => { s.value = 'gone'; s.dispatchEvent(new Event('change')); })"
               "(document.querySelector('#view-history select'))")  # fmt: skip
    [row] = screen.texts("#view-history tbody tr")
    assert row.startswith("MLA103TritonBackend.replay_cuda_graph")
    assert screen.texts("#view-history tbody .release") == ["1", "·"]


def test_everything_that_can_be_used_has_a_name(screen: Screen) -> None:
    from selenium.webdriver.common.by import By

    for view in ("hierarchy", "matrix", "findings", "history", "rules"):
        screen.go(view)
        parts = screen.driver.find_elements(
            By.CSS_SELECTOR, "a, button, input, select, [tabindex='0']"
        )
        shown = [part for part in parts if part.is_displayed()]
        assert len(shown) > 6
        assert [p.get_attribute("outerHTML") for p in shown if not p.accessible_name] == []


def test_it_follows_the_dark_mode(chrome: Any, report: Path) -> None:
    def colours(scheme: str) -> list[str]:
        screen = Screen(chrome, report, 1280, scheme)
        found: list[str] = screen.run(
            "(s => [s.backgroundColor, s.color])(getComputedStyle(document.body))"
        )
        return found

    assert colours("light") == ["rgb(255, 255, 255)", "rgb(27, 31, 36)"]
    assert colours("dark") == ["rgb(20, 23, 27)", "rgb(230, 233, 237)"]


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_sticks_out_of_the_window(chrome: Any, report: Path, width: int) -> None:
    screen = Screen(chrome, report, width, "light")
    for view in ("hierarchy", "matrix", "findings", "history", "rules"):
        screen.go(view)
        assert screen.run("document.documentElement.scrollWidth") <= width
    screen.driver.execute_script("location.hash = '#finding-0'")
    assert screen.waited("document.querySelector('dialog').open")
    assert screen.run("document.querySelector('dialog').getBoundingClientRect().right") <= width


def test_on_paper_every_finding_is_there_in_full(screen: Screen) -> None:
    from selenium.webdriver.common.by import By

    screen.go("findings")
    findings = len(screen.texts(SHOWN))
    screen.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    screen.run("window.dispatchEvent(new Event('beforeprint'))")
    assert len(screen.texts("#paper article")) == findings
    paper = screen.driver.find_element(By.ID, "paper")
    assert paper.is_displayed()
    for selector in ("nav", "#search", "#view-findings .bar"):
        assert not screen.driver.find_element(By.CSS_SELECTOR, selector).is_displayed()
    for view in ("hierarchy", "matrix", "history", "rules"):
        assert screen.driver.find_element(By.ID, f"view-{view}").is_displayed()
    screen.run("window.dispatchEvent(new Event('afterprint'))")
    assert screen.texts("#paper article") == []
    printed = screen.driver.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
    pdf = base64.b64decode(printed["data"])
    assert pdf.startswith(b"%PDF-")
    assert pdf.count(b"/Type /Page\n") > 5
