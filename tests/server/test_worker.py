"""What the worker finds out once is not found out again."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import lint_rules.reader
from lint_rules.run import TreeChanged
from lint_rules.server import worker
from lint_rules.server.wire import Checked, CheckTree, Described, DescribeHook
from lint_rules.server.worker import Worker
from tests.lint.edits import Tree


@pytest.fixture
def fast(tmp_path: Path) -> Path:
    Tree(tmp_path, Random(0))
    return tmp_path / "engine" / "fast.py"


def test_a_hover_parses_nothing(
    tmp_path: Path, fast: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []
    original = lint_rules.reader.Reader.extract

    def noting(self: lint_rules.reader.Reader, jobs: list[lint_rules.reader.Job]) -> object:
        jobs = list(jobs)
        parsed.extend(Path(job.path).name for job in jobs)
        return original(self, jobs)

    monkeypatch.setattr(lint_rules.reader.Reader, "extract", noting)
    text = b"# unsaved\n" + fast.read_bytes().replace(b"plan(self, batch)", b"plan(self, x, y)")
    asked = CheckTree((str(tmp_path),), {str(fast): text})
    found = Worker().check(asked)
    assert "fast.py" in parsed
    parsed.clear()
    again = Worker()  # as after a restart
    assert again.check(asked) == found
    line = text.splitlines().index(b"    def plan(self, x, y):") + 1
    described = again.describe(DescribeHook(str(fast), line, 9))
    assert (described.start, described.end) == (9, 13)
    assert f"- `Fast` [engine/fast.py:{line}]" in described.markdown
    assert parsed == []


def test_what_the_baseline_lists_is_held_back(tmp_path: Path, fast: Path) -> None:
    asked = CheckTree((str(tmp_path),), {})
    found = Worker().check(asked).findings
    listed = next(finding for finding in found if finding.place.path == str(fast))
    (tmp_path / "pyproject.toml").write_text("[tool.mla-guard]\nbaseline = 'known.txt'\n")
    said = f"{tmp_path / 'known.txt'}: the baseline cannot be read: "
    [problem] = Worker().check(asked).problems
    assert problem.startswith(said)
    line = f"engine/fast.py: {listed.code} {listed.symbol}\n"
    (tmp_path / "known.txt").write_text(line)
    held = Worker().check(asked)
    assert held.findings == tuple(finding for finding in found if finding != listed)
    assert len(held.findings) == 6


def test_a_tree_that_changes_while_it_is_read_is_no_crash(
    tmp_path: Path, fast: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = CheckTree((str(tmp_path),), {})
    hover = DescribeHook(str(fast), 9, 9)
    child = Worker()
    child.check(asked)
    original = child.describe(hover)
    assert original.markdown

    def changing(*arguments: object, **options: object) -> object:
        raise TreeChanged("fast.py")

    with monkeypatch.context() as patched:
        patched.setattr(worker, "checked", changing)
        patched.setattr(worker, "read_project", changing)
        said = ("fast.py is edited faster than it can be read",)
        assert child.check(asked) == Checked(problems=said)
        assert child.describe(hover) == Described()
    assert child.describe(hover) == original
