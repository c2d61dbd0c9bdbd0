"""The file that ``mla-guard report`` writes: whole, self-contained, and safe to open."""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lint_rules.demo import ENGINE
from lint_rules.html_report.render import embedded, render
from mla_guard.cli import main
from tests.lint.hostile import HOSTILE_NAME, HOSTILE_SOURCE, MARKUP

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(ENGINE, tmp_path / "engine")
    (tmp_path / "pyproject.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "engine"


class Page(HTMLParser):
    """The tags of a page with their attributes, and the text of its scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[tuple[str, str]] = []
        self._inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag if tag in ("script", "style") else ""

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.raw.append((self._inside, data))


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_no_data_can_leave_its_element(value: object) -> None:
    text = embedded({"value": value})
    assert json.loads(text) == {"value": value}
    assert re.search(r"[<>&]|[^\x20-\x7e]", text) is None


@pytest.mark.parametrize("text", ["</script>", "<!--<script>", "]]>", "\u2028\u2029", "\ud800"])
def test_what_ends_a_script_elsewhere_is_escaped(text: str) -> None:
    page = Page(render({"text": text}, f"a title: {MARKUP}"))
    assert [tag for tag, _ in page.tags].count("script") == 2
    [(_, data)] = [(tag, raw) for tag, raw in page.raw if tag == "script"][:1]
    assert json.loads(data) == {"text": text}


def test_hostile_sources_become_no_markup(engine: Path, tmp_path: Path) -> None:
    (engine / HOSTILE_NAME).write_text(HOSTILE_SOURCE, encoding="utf-8")
    assert main(["report", "engine", "--html", "report.html"]) == 0
    text = (tmp_path / "report.html").read_text(encoding="ascii")
    plain = Page(render({}, "mla-guard report: engine"))
    assert [t for t, _ in Page(text).tags] == [t for t, _ in plain.tags]
    [data] = [raw for tag, raw in Page(text).raw if tag == "script"][:1]
    assert HOSTILE_NAME in {f["path"] for f in json.loads(data)["findings"]}
    assert MARKUP in json.dumps(json.loads(data)["excerpts"], ensure_ascii=False).replace(
        '\\"', '"'
    )


def test_the_page_asks_for_nothing_and_runs_only_its_own_script() -> None:
    text = render({}, "title")
    page = Page(text)
    assert [a["href"] for tag, a in page.tags if tag == "link"] == ["data:,"]
    assert not any("src" in a for _, a in page.tags)
    assert not any(name.startswith("on") for _, a in page.tags for name in a)
    [style] = [raw for tag, raw in page.raw if tag == "style"]
    _, script = [raw for tag, raw in page.raw if tag == "script"]
    assert "url(" not in style
    assert "@import" not in style
    assert re.findall(r"https?://[^\"]*", script) == ["http://www.w3.org/2000/svg"]
    for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert forbidden not in script
    policy = next(a["content"] for tag, a in page.tags if "http-equiv" in a)

    def digest(part: str) -> str:
        return base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()

    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest(style)}'; "
        f"script-src 'sha256-{digest(script)}'; img-src data:; base-uri 'none'; form-action 'none'"
    )


def test_the_same_tree_gives_the_same_page(engine: Path, capsys: Capture) -> None:
    assert main(["report", "engine", "--html", "report.html"]) == 0
    assert capsys.readouterr() == ("", "")
    assert main(["report", "engine", "--html", "-"]) == 0
    assert capsys.readouterr().out == Path("report.html").read_text(encoding="ascii")
    assert str(engine.parent) not in Path("report.html").read_text(encoding="ascii")


def test_a_page_is_replaced_whole_or_not_at_all(
    engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    target = tmp_path / "out" / "report.html"
    target.parent.mkdir()
    target.write_text("the old page")
    target.chmod(0o640)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    for failing, code in ((full, 2), (interrupted, 130)):
        with monkeypatch.context() as patched:
            patched.setattr(os, "replace", failing)
            assert main(["report", "engine", "--html", str(target)]) == code
        assert [p.name for p in target.parent.iterdir()] == ["report.html"]
        assert target.read_text() == "the old page"
    assert capsys.readouterr().err == (
        f"mla-guard: error: '{os.path.realpath(target)}' cannot be written: "
        "No space left on device\n"
    )
    assert main(["report", "engine", "--html", str(target)]) == 0
    assert [p.name for p in target.parent.iterdir()] == ["report.html"]
    assert target.read_text().startswith("<!doctype html>")
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_link_stays_a_link(engine: Path, tmp_path: Path) -> None:
    (tmp_path / "kept.html").write_text("")
    os.symlink("kept.html", "link.html")
    assert main(["report", "engine", "--html", "link.html"]) == 0
    assert os.readlink("link.html") == "kept.html"
    assert (tmp_path / "kept.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("missing/report.html", "'{here}/missing/report.html' cannot be written: "
         "No such file or directory"),
        ("pyproject.toml/report.html", "'{here}/pyproject.toml/report.html' cannot be written: "
         "Not a directory"),
        ("engine", "'{here}/engine' is not a regular file: nothing was written"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_written_is_2_and_says_why(
    engine: Path, capsys: Capture, target: str, message: str
) -> None:
    assert main(["report", "engine", "--html", target]) == 2
    here = os.path.realpath(engine.parent)
    assert capsys.readouterr().err == f"mla-guard: error: {message.format(here=here)}\n"


def test_nothing_checked_is_2_and_writes_nothing(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "plain.py").write_text("class A: ...\n")
    target = tmp_path / "report.html"
    assert main(["report", str(tmp_path), "--html", str(target)]) == 2
    assert capsys.readouterr().err == (
        f"mla-guard: error: no base class of attention backends in {str(tmp_path)!r} (1 files): "
        "nothing was checked. Name it with bases = ['AttentionBackend'] under [tool.mla-guard] of "
        "pyproject.toml, or give more of the engine\n"
    )
    assert not target.exists()
    assert main(["report", str(tmp_path / "none"), "--html", str(target)]) == 2
    assert "none" in capsys.readouterr().err
    assert not target.exists()


def test_a_file_that_cannot_be_read_is_2_and_is_named_on_the_page(
    engine: Path, capsys: Capture
) -> None:
    (engine / "broken.py").write_text(
        "from .base import AttentionBackend\nclass Broken(AttentionBackend):\n    def (\n"
    )
    assert main(["report", "engine", "--html", "report.html"]) == 2
    [error] = capsys.readouterr().err.splitlines()
    assert error.startswith("engine/broken.py:3: cannot be checked: ")
    data = next(raw for tag, raw in Page(Path("report.html").read_text()).raw if tag == "script")
    [failure] = json.loads(data)["summary"]["failures"]
    assert (failure["path"], failure["line"]) == ("broken.py", 3)


def test_a_check_does_not_load_the_report() -> None:
    program = (
        "import sys; from mla_guard.cli import main; main(['demo']); "
        "print([m for m in sys.modules if m.startswith('lint_rules.html_report')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
