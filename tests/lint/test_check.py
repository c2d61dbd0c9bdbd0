"""From the command line through to the findings, on a small engine on disk."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mla_guard.cli import main

BASE = """\
class AttentionBackend:
    def plan(self, batch, flag=False):
        self.batch = batch
"""
CHILD = """\
from engine.base import AttentionBackend


class {name}(AttentionBackend):
    def plan(self, batch):
        self.batch = batch
"""


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a base, two children that drop a parameter, and a file without backends."""
    (tmp_path / "engine" / "children").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.mla-guard]\n")
    (tmp_path / "engine" / "base.py").write_text(BASE)
    (tmp_path / "engine" / "children" / "first.py").write_text(CHILD.format(name="First"))
    (tmp_path / "engine" / "second.py").write_text(CHILD.format(name="Second"))
    (tmp_path / "engine" / "third.py").write_text(
        CHILD.format(name="Third").replace("batch):", "batch, flag=False):")
    )
    (tmp_path / "engine" / "tools.py").write_text("def add(a, b):\n    return a + b\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(capsys: pytest.CaptureFixture[str], *arguments: str, exit_code: int) -> list[str]:
    """``path:line code`` of each finding of a check with these arguments."""
    assert main(["check", "--output-format", "json", *arguments]) == exit_code
    findings = json.loads(capsys.readouterr().out)
    return [f"{f['path']}:{f['line']} {f['code']}" for f in findings]


FIRST = "engine/children/first.py:5 MLA101"
SECOND = "engine/second.py:5 MLA101"


@pytest.mark.usefixtures("engine")
def test_a_path_narrows_the_report_not_what_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert found(capsys, exit_code=1) == [FIRST, SECOND]
    assert found(capsys, "engine/children", exit_code=1) == [FIRST]
    assert found(capsys, "engine/second.py", exit_code=1) == [SECOND]
    assert found(capsys, "engine/second.py", "engine/children", exit_code=1) == [FIRST, SECOND]


@pytest.mark.usefixtures("engine")
def test_a_file_without_backends_is_clean(capsys: pytest.CaptureFixture[str]) -> None:
    assert found(capsys, "engine/tools.py", exit_code=0) == []
    assert found(capsys, "engine/third.py", exit_code=0) == []


def test_a_broken_backend_is_named_and_the_rest_is_checked(
    engine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (engine / "engine" / "broken.py").write_text(CHILD.format(name="Broken") + "    def (self):\n")
    assert main(["check", "--output-format", "concise"]) == 2
    output = capsys.readouterr()
    assert [line.split(" ")[0] for line in output.out.splitlines()] == [
        "engine/children/first.py:5:9:",
        "engine/second.py:5:9:",
    ]
    assert output.err.startswith("engine/broken.py:7: cannot be checked: ")


def test_a_broken_file_without_backends_does_not_matter(
    engine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (engine / "engine" / "broken.py").write_text("def (self):\n")
    assert found(capsys, "engine/second.py", exit_code=1) == [SECOND]


def test_no_base_class_in_the_project_is_2(
    engine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (engine / "engine" / "base.py").unlink()
    for child in ("children/first.py", "second.py", "third.py"):
        (engine / "engine" / child).unlink()
    assert main(["check"]) == 2
    assert capsys.readouterr().err.startswith(
        "mla-guard: error: no base class of attention backends in . (1 file"
    )


def test_bases_name_another_root(engine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (engine / "engine").rglob("*.py"):
        path.write_text(path.read_text().replace("AttentionBackend", "Root"))
    assert main(["check"]) == 2
    capsys.readouterr()
    for base in ("Root", "engine.base.Root"):
        (engine / "pyproject.toml").write_text(f"[tool.mla-guard]\nbases = ['{base}']\n")
        assert found(capsys, exit_code=1) == [FIRST, SECOND]


def test_excluded_files_are_not_read(engine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (engine / "pyproject.toml").write_text("[tool.mla-guard]\nexclude = ['children/']\n")
    assert found(capsys, exit_code=1) == [SECOND]


def test_rules_can_be_selected_and_ignored(
    engine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert found(capsys, "--select", "MLA2", exit_code=0) == []
    assert found(capsys, "--ignore", "hook-signature-drift", exit_code=0) == []
    assert found(capsys, "--select", "MLA101", exit_code=1) == [FIRST, SECOND]


def test_an_ignore_suppresses_its_finding(engine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    second = engine / "engine" / "second.py"
    text = second.read_text()
    ignore = "# mla-guard: ignore[MLA101] no caller passes it"
    second.write_text(text.replace("batch):", f"batch):  {ignore}"))
    assert found(capsys, exit_code=1) == [FIRST]
    second.write_text(text.replace("batch):", f"batch, flag=False):  {ignore}"))
    assert found(capsys, exit_code=1) == [FIRST, "engine/second.py:5 MLA001"]
    assert found(capsys, "--min-severity", "error", "engine/second.py", exit_code=0) == []
    assert found(capsys, "--select", "MLA2,MLA001", exit_code=0) == []


def test_the_sources_are_not_imported(engine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (engine / "engine" / "__init__.py").write_text("raise SystemExit('imported')\n")
    assert found(capsys, exit_code=1) == [FIRST, SECOND]


def test_tests_are_not_read_unless_they_are_named(
    engine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (engine / "engine" / "tests").mkdir()
    double = engine / "engine" / "tests" / "double.py"
    double.write_text(CHILD.format(name="Double"))
    assert found(capsys, exit_code=1) == [FIRST, SECOND]
    assert found(capsys, "engine/tests", exit_code=1) == ["engine/tests/double.py:5 MLA101"]


@pytest.mark.parametrize(
    "header",
    [
        "class Odd(mixin(1), AttentionBackend):",
        "class Odd(  # the (best) one\n    AttentionBackend,\n):",
        "class Ödd(AttentionBackend):",
    ],
)
def test_a_header_may_be_written_in_any_way(
    engine: Path, capsys: pytest.CaptureFixture[str], header: str
) -> None:
    body = CHILD.format(name="Odd").replace("class Odd(AttentionBackend):", header)
    (engine / "engine" / "odd.py").write_text("def mixin(_): return object\n" + body)
    line = 6 + header.count("\n")
    assert found(capsys, "engine/odd.py", exit_code=1) == [f"engine/odd.py:{line} MLA101"]


@pytest.mark.parametrize("folder", [".hidden", "build"])
def test_what_is_named_is_read(
    engine: Path, capsys: pytest.CaptureFixture[str], folder: str
) -> None:
    (engine / folder).mkdir()
    (engine / folder / "x.py").write_text(CHILD.format(name="X"))
    assert found(capsys, exit_code=1) == [FIRST, SECOND]
    assert found(capsys, f"{folder}/x.py", exit_code=1) == [f"{folder}/x.py:5 MLA101"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (" or ".join(["a"] * 3000), "is nested too deeply to be read"),
        ("def (:\n", "does not parse: invalid syntax"),
        ("def unrelated():\n    return = 1\n", "does not parse: invalid syntax"),
    ],
)
def test_a_file_that_cannot_be_read_never_stops_the_rest(
    engine: Path, capsys: pytest.CaptureFixture[str], content: str, message: str
) -> None:
    (engine / "engine" / "odd.py").write_text(CHILD.format(name="Odd") + content)
    assert main(["check", "--output-format", "concise"]) == 2
    output = capsys.readouterr()
    assert [line.split(":")[0] for line in output.out.splitlines()] == [
        "engine/children/first.py",
        "engine/second.py",
    ]
    assert output.err.startswith("engine/odd.py:")
    assert message in output.err


def test_a_pipe_does_not_block(engine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(engine / "engine" / "pipe.py")
    assert main(["check", "--output-format", "concise"]) == 2
    assert capsys.readouterr().err == (
        "engine/pipe.py:1: cannot be checked: cannot be read: is no regular file\n"
    )


def test_a_base_that_is_nowhere_is_refused(
    engine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (engine / "pyproject.toml").write_text('[tool.mla-guard]\nbases = ["AttentionBackends"]\n')
    assert main(["check"]) == 2
    assert capsys.readouterr().err == (
        "mla-guard: error: bases: 'AttentionBackends' names no class from which another in the "
        "project derives (did you mean 'AttentionBackend'?)\n"
    )


def test_codes_are_ignored_in_the_files_that_the_settings_name(
    engine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = "[tool.mla-guard.per-file-ignores]\n'engine/children/' = ['MLA1']\n"
    (engine / "pyproject.toml").write_text(settings)
    assert found(capsys, exit_code=1) == [SECOND]
    # an ignore comment there suppresses something all the same, and is not called unused
    path = engine / "engine" / "children" / "first.py"
    path.write_text(path.read_text().replace("batch):", "batch):  # mla-guard: ignore[MLA101] ok"))
    assert found(capsys, exit_code=1) == [SECOND]
