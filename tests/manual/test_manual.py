"""The manual is what it is made of, and a page that went stale does not build."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lint_rules.pages import file_name, page
from mla_guard.diagnostic import RULE_NAMES
from tests.manual.build import ROOT, WIDTH, BrokenLink, build, command_line, lay_out, links

needs_zensical = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="zensical needs Python 3.11 or later"
)


@pytest.fixture
def manual(tmp_path: Path) -> Path:
    lay_out(tmp_path)
    return tmp_path


def printed(*arguments: str) -> str:
    """The help that the command line prints in a terminal of the reference's width."""
    environment = {**os.environ, "COLUMNS": str(WIDTH + 2), "NO_COLOR": "1"}
    command = [sys.executable, "-m", "mla_guard", *arguments, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return f"```text\n{done.stdout.rstrip()}\n```"


def test_the_reference_is_what_the_command_line_prints() -> None:
    verbs = re.findall(r"^    ([a-z]+)\s", printed(), re.MULTILINE)
    assert {"check", "rule", "contract", "server"} <= set(verbs)
    sections = ["# Command line", printed()]
    for verb in verbs:
        sections += [f"## mla-guard {verb}", printed(verb)]
    assert command_line() == "\n\n".join(sections) + "\n"


def test_every_rule_has_its_page_and_its_line(manual: Path) -> None:
    rules = manual / "pages" / "lint_rules" / "rules"
    index = (rules / "index.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \[(\w+)\]\((\w+\.md)\) \| ([a-z-]+) \|", index, re.MULTILINE) == [
        (code, file_name(code), name) for code, name in RULE_NAMES.items()
    ]
    for code in RULE_NAMES:
        assert (rules / file_name(code)).read_text(encoding="utf-8") == page(code)


def test_every_page_is_in_the_navigation(manual: Path) -> None:
    [rules] = [e for e in navigation(manual) if isinstance(e, dict)]
    listed = {e for e in navigation(manual) if isinstance(e, str)} | set(rules["Rules"])
    pages = manual / "pages"
    assert listed == {path.relative_to(pages).as_posix() for path in pages.rglob("*.md")}
    assert {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")} < listed


def navigation(manual: Path) -> list[str | dict[str, list[str]]]:
    settings = json.loads((manual / "mkdocs.yml").read_text(encoding="utf-8"))
    found: list[str | dict[str, list[str]]] = settings["nav"]
    return found


def test_what_a_page_links_to_comes_along(manual: Path) -> None:
    found = set(links((ROOT / "docs" / "runtime.md").read_text(encoding="utf-8")))
    assert "../mla_runtime/protocols.py" in found
    for target in found:
        copied = (manual / "pages" / "docs" / target).resolve()
        original = (ROOT / "docs" / target).resolve()
        assert copied.read_bytes() == original.read_bytes()


def test_code_holds_no_links() -> None:
    text = "[a](b.md#c) `[d](e.md)` [f](https://g) [h](#i)\n```\n[j](k.md)\n```\n[l](m/n.py)\n"
    assert list(links(text)) == ["b.md", "m/n.py"]


@pytest.mark.parametrize("target", ["nowhere.py", "../outside.md"])
def test_a_link_to_no_file_of_the_repository_is_refused(tmp_path: Path, target: str) -> None:
    root = tmp_path / "repository"
    (root / "docs").mkdir(parents=True)
    (tmp_path / "outside.md").write_text("")
    (root / "README.md").write_text(f"[there]({target})")
    with pytest.raises(BrokenLink, match=rf"^README.md: no file {re.escape(target)} in the"):
        lay_out(tmp_path / "manual", root)


@needs_zensical
def test_the_site_builds_strictly_and_an_anchor_that_leads_nowhere_fails(manual: Path) -> None:
    done = build(manual)
    assert (done.returncode, done.stderr) == (0, "No issues found\n")
    site = manual / "site"
    assert {path.name for path in (site / "lint_rules" / "rules").glob("*.html")} == {
        "index.html",
        *(file_name(code).replace(".md", ".html") for code in RULE_NAMES),
    }
    home = (site / "index.html").read_text(encoding="utf-8")
    assert 'href="docs/linter.html#in-an-editor"' in home
    with (manual / "pages" / "README.md").open("a", encoding="utf-8") as file:
        file.write("\n[gone](docs/linter.md#no-such-section)\n")
    assert build(manual).returncode != 0
