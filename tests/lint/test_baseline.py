"""The baseline: what it holds back, that it only shrinks, and that it is never half written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lint_rules.baseline import Baseline, Key, hold, read_baseline, write_text
from lint_rules.config import ConfigError
from mla_guard.cli import main
from mla_guard.diagnostic import Diagnostic, Place

BASE = """\
class AttentionBackend:
    def plan(self, batch, flag=False):
        self.batch = batch
"""
CHILD = """\
from engine.base import AttentionBackend


class {0}(AttentionBackend):
    def plan(self, batch):
        self.batch = batch
"""
HEADER = """\
# Findings that mla-guard holds back. Lines may be taken away, none is added:
# `mla-guard check --write-baseline` takes away those that hold nothing any more.
"""
FIRST = "engine/first.py: MLA101 First.plan\n"
SECOND = "engine/second.py: MLA101 Second.plan\n"

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two backends drop a parameter, one keeps it; the settings name a baseline."""
    (tmp_path / "engine").mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool.mla-guard]\nbaseline = 'known.txt'\n")
    (tmp_path / "engine" / "base.py").write_text(BASE)
    (tmp_path / "engine" / "first.py").write_text(CHILD.format("First"))
    (tmp_path / "engine" / "second.py").write_text(CHILD.format("Second"))
    (tmp_path / "engine" / "sound.py").write_text(CHILD.format("Sound"))
    repair(tmp_path, "sound.py")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def repair(engine: Path, name: str) -> None:
    path = engine / "engine" / name
    path.write_text(path.read_text().replace("batch):", "batch, flag=False):"))


def found(capsys: Capture, *arguments: str, exit_code: int) -> list[str]:
    """``path:line code`` of each finding of a check with these arguments."""
    capsys.readouterr()
    assert main(["check", "--output-format", "json", *arguments]) == exit_code
    findings = json.loads(capsys.readouterr().out)
    return [f"{f['path']}:{f['line']} {f['code']}" for f in findings]


def test_adopting_and_shrinking(engine: Path, capsys: Capture) -> None:
    known = engine / "known.txt"
    assert main(["check", "--write-baseline"]) == 0
    assert capsys.readouterr() == (
        "No findings in 3 backend classes (4 files); 2 held back by the baseline.\n",
        f"mla-guard: {known}: 2 lines written\n",
    )
    assert known.read_text() == HEADER + FIRST + SECOND
    assert found(capsys, exit_code=0) == []

    repair(engine, "first.py")
    assert found(capsys, exit_code=1) == ["known.txt:3 MLA003"]
    assert found(capsys, "engine/first.py", exit_code=1) == ["known.txt:3 MLA003"]
    assert found(capsys, "engine/second.py", exit_code=0) == []
    assert found(capsys, "--select", "MLA2", exit_code=0) == []
    assert found(capsys, "--ignore", "MLA003", exit_code=0) == []
    assert found(capsys, "--min-severity", "error", exit_code=0) == []

    assert main(["check", "--write-baseline"]) == 0
    assert capsys.readouterr().err == f"mla-guard: {known}: 1 line of 2 taken away\n"
    assert known.read_text() == HEADER + SECOND
    assert found(capsys, exit_code=0) == []


def test_what_is_new_is_reported_and_never_added(engine: Path, capsys: Capture) -> None:
    main(["check", "--write-baseline"])
    (engine / "engine" / "third.py").write_text(CHILD.format("Third"))
    before = (engine / "known.txt").read_bytes()
    assert found(capsys, "--write-baseline", exit_code=1) == ["engine/third.py:5 MLA101"]
    assert (engine / "known.txt").read_bytes() == before


def test_lines_outlive_moves_and_keep_their_reasons(engine: Path, capsys: Capture) -> None:
    text = f"# agreed in March\n{SECOND}\n{FIRST.rstrip()}  # no caller passes it\n"
    (engine / "known.txt").write_text(text)
    path = engine / "engine" / "first.py"
    path.write_text("import os\n\n\n" + path.read_text())
    assert found(capsys, exit_code=0) == []
    repair(engine, "second.py")
    assert found(capsys, "--write-baseline", exit_code=0) == []
    assert (engine / "known.txt").read_text() == text.replace(SECOND, "")


def test_paths_are_relative_to_the_file_wherever_the_check_runs(
    engine: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (engine / "ci").mkdir()
    main(["check", "--write-baseline", "--baseline", "ci/other.txt"])
    text = (engine / "ci" / "other.txt").read_text()
    assert text == HEADER + f"../{FIRST}../{SECOND}"
    monkeypatch.chdir(engine / "engine")
    assert found(capsys, "--baseline", "../ci/other.txt", exit_code=0) == []


def test_nothing_is_stale_or_written_while_a_file_cannot_be_checked(
    engine: Path, capsys: Capture
) -> None:
    main(["check", "--write-baseline"])
    before = (engine / "known.txt").read_bytes()
    repair(engine, "first.py")
    (engine / "engine" / "broken.py").write_text(CHILD.format("Broken") + "    def (self):\n")
    assert found(capsys, "--write-baseline", exit_code=2) == []
    assert (engine / "known.txt").read_bytes() == before
    (engine / "known.txt").unlink()
    assert main(["check", "--write-baseline"]) == 2
    said = f"mla-guard: {engine}/known.txt: not written, as not everything was checked\n"
    assert capsys.readouterr().err.startswith(said)
    assert not (engine / "known.txt").exists()


def test_without_a_base_class_nothing_is_written(engine: Path, capsys: Capture) -> None:
    (engine / "engine" / "base.py").write_text("")
    assert main(["check", "--write-baseline"]) == 2
    assert "no base class of attention backends" in capsys.readouterr().err
    assert not (engine / "known.txt").exists()


def test_an_ignored_finding_needs_no_line(engine: Path, capsys: Capture) -> None:
    main(["check", "--write-baseline"])
    path = engine / "engine" / "first.py"
    path.write_text(path.read_text().replace("batch):", "batch):  # mla-guard: ignore[MLA101] ok"))
    assert found(capsys, exit_code=1) == ["known.txt:3 MLA003"]


def test_findings_about_exceptions_are_never_held(engine: Path, capsys: Capture) -> None:
    repair(engine, "first.py")
    path = engine / "engine" / "first.py"
    path.write_text(path.read_text().replace("False):", "False):  # mla-guard: ignore[MLA101] ?"))
    assert found(capsys, "--write-baseline", exit_code=1) == ["engine/first.py:5 MLA001"]
    assert (engine / "known.txt").read_text() == HEADER + SECOND


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "engine/first.py MLA101 First.plan",
            ":1: 'engine/first.py MLA101 First.plan' is not a line of a baseline, as in "
            "'engine/backend.py: MLA101 Backend.hook  # reason'",
        ),
        ("a.py: MLA999 A.f", ":1: MLA999 is no rule whose findings a baseline can hold"),
        ("a.py: MLA001 A.f", ":1: MLA001 is no rule whose findings a baseline can hold"),
        ("a.py: MLA401 A.f", ":1: MLA401 is no rule whose findings a baseline can hold"),
        (
            "<<<<<<< HEAD",
            ":1: '<<<<<<< HEAD' is not a line of a baseline, as in "
            "'engine/backend.py: MLA101 Backend.hook  # reason'",
        ),
    ],
)
def test_a_line_that_is_none_is_2(engine: Path, capsys: Capture, line: str, message: str) -> None:
    (engine / "known.txt").write_text(line + "\n")
    assert main(["check"]) == 2
    assert capsys.readouterr() == ("", f"mla-guard: error: {engine}/known.txt{message}\n")


def test_a_file_that_is_not_there_is_2(engine: Path, capsys: Capture) -> None:
    assert main(["check"]) == 2
    assert capsys.readouterr().err == (
        f"mla-guard: error: {engine}/known.txt: the baseline cannot be read: No such file or "
        "directory; --write-baseline writes one\n"
    )
    (engine / "pyproject.toml").write_text("[tool.mla-guard]\n")
    assert main(["check", "--write-baseline"]) == 2
    assert capsys.readouterr().err == (
        "mla-guard: error: --write-baseline: no file is named: add --baseline FILE, or "
        "baseline = 'FILE' under [tool.mla-guard] of pyproject.toml\n"
    )


def finding(symbol: str, line: int = 1) -> Diagnostic:
    return Diagnostic("MLA302", "error", f"line {line}", Place("/p/a.py", line), symbol)


@given(st.lists(st.sampled_from("AB")), st.lists(st.sampled_from("AB")))
def test_as_many_are_held_as_lines_say(symbols: list[str], listed: list[str]) -> None:
    findings = [finding(symbol, n) for n, symbol in enumerate(symbols, 1)]
    entries = {n: Key("a.py", "MLA302", symbol) for n, symbol in enumerate(listed, 1)}
    baseline = Baseline(Path("/p/known.txt"), (), entries)
    held = hold(findings, baseline, lambda path, code: (path, code) == (Path("/p/a.py"), "MLA302"))
    for symbol in "AB":
        reported = [f for f in held.reported if f.code == "MLA302" and f.symbol == symbol]
        stale = [n for n in held.stale if entries[n].symbol == symbol]
        more = symbols.count(symbol) - listed.count(symbol)
        assert len(reported) == (symbols.count(symbol) if more > 0 else 0)
        assert len(stale) == max(-more, 0)
    assert [f.place.line for f in held.reported if f.code == "MLA003"] == held.stale
    assert hold(findings, baseline, lambda path, code: False).stale == []


def test_more_than_the_lines_say_are_reported_with_the_reason() -> None:
    baseline = Baseline(Path("/p/known.txt"), (), {1: Key("a.py", "MLA302", "A")})
    held = hold([finding("A", 1), finding("A", 2)], baseline, lambda path, code: True)
    reason = "the baseline holds 1 alike: which are new cannot be told"
    assert [(f.place.line, f.reasons) for f in held.reported] == [(1, (reason,)), (2, (reason,))]


def test_line_ends_and_unusual_names_survive(tmp_path: Path) -> None:
    path = tmp_path / "known.txt"
    text = b"\r\na b: c/\xff.py: MLA101 A.f\r\n# x\x0by\ngone.py: MLA101 B.f"
    path.write_bytes(text)
    baseline = read_baseline(path)
    assert baseline.entries == {
        2: Key("a b: c/\udcff.py", "MLA101", "A.f"),
        4: Key("gone.py", "MLA101", "B.f"),
    }
    write_text(path, baseline.without([4]))
    assert path.read_bytes() == text.removesuffix(b"gone.py: MLA101 B.f")


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "known.txt"
    path.write_text("old")

    def refused(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refused)
    with pytest.raises(ConfigError, match=r"known\.txt: cannot be written: No space left"):
        write_text(path, "new")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("known.txt", "old")]


def test_a_link_is_followed_and_the_mode_kept(tmp_path: Path) -> None:
    path, link = tmp_path / "known.txt", tmp_path / "link.txt"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    write_text(link, "new")
    assert (link.is_symlink(), path.read_text(), path.stat().st_mode & 0o777) == (
        True,
        "new",
        0o640,
    )
