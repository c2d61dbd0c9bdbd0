"""What changed files cause: named one by one, by a git revision, or by watching them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

import lint_rules.watch
from lint_rules.config import load_config
from lint_rules.run import check
from mla_guard.cli import main
from tests.lint.edits import Tree

Found = Callable[..., list[str]]


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    Tree(tmp_path, Random(0))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "engine"


@pytest.fixture
def found(capsys: pytest.CaptureFixture[str]) -> Found:
    """``file:line code`` of each finding of a check with these arguments."""

    def run(*arguments: str) -> list[str]:
        main(["check", "--output-format", "json", *arguments])
        said = json.loads(capsys.readouterr().out)
        return [f"{Path(f['path']).name}:{f['line']} {f['code']}" for f in said]

    return run


def git(root: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)


@pytest.fixture
def repository(engine: Path) -> Path:
    root = engine.parent
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "engine")
    return root


FAST = ["fast.py:6 MLA203", "fast.py:9 MLA101"]
CONFIG = "config.py:18 MLA206"
SLOW = ["hybrid.py:14 MLA102", "slow.py:5 MLA101"]


def test_a_file_is_reported_with_what_points_at_it(engine: Path, found: Found) -> None:
    hybrid = ["hybrid.py:10 MLA102", SLOW[0]]
    assert found() == [CONFIG, *FAST, *hybrid, "layer.py:3 MLA001", SLOW[1]]
    assert found("engine/fast.py") == [*FAST, "hybrid.py:10 MLA102"]
    assert found("engine/slow.py") == SLOW
    # the overrides that a base is broken by stand in other files, and what it reads
    assert found("engine/pages.py") == [CONFIG, *FAST, SLOW[1]]
    assert found("engine/config.py") == [CONFIG]
    assert found("engine/tools.py") == []
    assert found("engine/tools.py", "engine/layer.py") == ["layer.py:3 MLA001"]


def test_changed_since_a_revision(repository: Path, found: Found) -> None:
    pages = repository / "engine" / "pages.py"
    assert found("--changed-since", "HEAD") == []
    pages.write_text(pages.read_text() + "\n")
    (repository / "engine" / "new.py").write_text(
        "from engine.base import AttentionBackend\n\n\nclass New(AttentionBackend):\n"
        "    def plan(self, other):\n        pass\n"
    )
    expected = [CONFIG, *FAST, "new.py:5 MLA101", SLOW[1]]
    assert [f for f in found("--changed-since", "HEAD") if "MLA102" not in f] == expected
    assert found("--changed-since", "HEAD", "engine/tools.py") == []
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "more")
    assert found("--changed-since", "HEAD") == []
    assert [f for f in found("--changed-since", "HEAD~1") if "MLA102" not in f] == expected


def test_deleted_files_are_no_hindrance(repository: Path, found: Found) -> None:
    (repository / "engine" / "fast.py").unlink()
    assert found("--changed-since", "HEAD") == []


@pytest.mark.parametrize("revision", ["nosuch", "--output=x", ""])
def test_an_unknown_revision_is_an_error(
    repository: Path, capsys: pytest.CaptureFixture[str], revision: str
) -> None:
    assert main(["check", f"--changed-since={revision}"]) == 2
    assert capsys.readouterr().err == (
        f"mla-guard: error: --changed-since: {revision!r} is no revision of {repository}\n"
    )


def test_no_repository_is_an_error(engine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--changed-since", "HEAD"]) == 2
    assert capsys.readouterr().err.startswith(
        "mla-guard: error: --changed-since: git cannot tell: fatal: not a git repository"
    )


def test_no_git_is_an_error(
    engine: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(engine))
    assert main(["check", "--changed-since", "HEAD"]) == 2
    assert capsys.readouterr().err == (
        "mla-guard: error: --changed-since: git cannot be run: No such file or directory\n"
    )


def test_watching_says_what_a_cold_check_says(
    engine: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    base = engine / "base.py"
    edits: list[Callable[[], object]] = [
        lambda: base.write_text(base.read_text().replace("flag=False", "flag=False, more=None")),
        lambda: base.write_text(base.read_text().replace("def plan", "def plan (")),
        lambda: base.write_text(base.read_text().replace("def plan (", "def plan")),
        lambda: (engine / "slow.py").unlink(),
        lambda: (engine.parent / "pyproject.toml").write_text("[tool.mla-guard]\nselct = 1\n"),
        lambda: (engine.parent / "pyproject.toml").write_text("[tool.mla-guard]\n"),
    ]
    expected: list[tuple[str, str]] = []

    def cold() -> None:
        main(["check", "--no-cache", "--output-format", "concise"])
        expected.append(capsys.readouterr())

    seen: list[tuple[str, str]] = []

    def edit(_: float) -> None:
        seen.append(capsys.readouterr())
        cold()
        if len(seen) > len(edits):
            raise KeyboardInterrupt
        edits[len(seen) - 1]()

    monkeypatch.setattr(lint_rules.watch.watch, "__defaults__", (edit,))
    assert main(["check", "--watch", "--output-format", "concise"]) == 130
    assert seen == expected
    assert len(set(seen)) == 5  # two edits were taken back


def test_gitignore_is_honoured(repository: Path, found: Found) -> None:
    whole = found()
    (repository / ".gitignore").write_text("/engine/slow.py\n*.so\n# comment\n")
    assert found() == [CONFIG, *FAST, "hybrid.py:10 MLA102", "layer.py:3 MLA001"]
    # what is named is read all the same
    assert "slow.py:5 MLA101" in found("engine/slow.py")
    (repository / "engine" / ".gitignore").write_text("!slow.py\n")
    assert found() == whole


def test_gitignore_of_a_folder_above(repository: Path, found: Found) -> None:
    (repository / ".gitignore").write_text("engine/\n")
    inner = repository / "engine" / "part"
    inner.mkdir()
    (repository / "engine" / "pyproject.toml").write_text("")
    config = load_config([repository / "engine"])
    (repository / ".gitignore").write_text("fast.py\n")
    report = check([repository / "engine"], config)
    assert report.files == 9
    (repository / ".git" / "info" / "exclude").write_text("slow.py\n")
    assert check([repository / "engine"], config).files == 8
