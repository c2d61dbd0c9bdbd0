"""The hook, which pre-commit installs from this checkout into an environment of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = (".pre-commit-hooks.yaml", "pyproject.toml", "README.md", "LICENSE")
PACKAGES = ("mla_guard", "lint_rules", "mla_runtime")
BASE = """\
class AttentionBackend:
    def plan(self, batch):
        self.batch = batch
"""
CHILD = """\
from engine.base import AttentionBackend


class {0}(AttentionBackend):
    def plan(self, batch):
        self.batch = batch
"""
SOUND = CHILD.format("Sound").replace("batch):", "batch, flag=False):")

pytestmark = pytest.mark.field


class Repository:
    """A git repository with an engine and this hook, and a home of its own for pre-commit."""

    def __init__(self, path: Path, hook: Path) -> None:
        self.path = path
        self.home = path.parent / "home"
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "PRE_COMMIT"))},
            "PRE_COMMIT_HOME": str(self.home),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            **{f"GIT_{who}_NAME": "tester" for who in ("AUTHOR", "COMMITTER")},
            **{f"GIT_{who}_EMAIL": "tester@localhost" for who in ("AUTHOR", "COMMITTER")},
        }
        revision = self.commit_all(hook)
        self.write("pyproject.toml", "[tool.mla-guard]\n")
        self.write("engine/base.py", BASE)
        self.write("engine/first.py", CHILD.format("First"))
        self.write("engine/sound.py", SOUND)
        self.write("tools.py", "def add(a, b):\n    return a + b\n")
        self.write(
            ".pre-commit-config.yaml",
            f"repos:\n- repo: {hook}\n  rev: {revision}\n  hooks:\n  - id: mla-guard\n",
        )
        self.commit_all(path)

    def call(self, *command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=cwd or self.path,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def commit_all(self, path: Path) -> str:
        """Commit all files below ``path`` and return the revision."""
        for command in ("init --quiet", "add --all", "commit --quiet --allow-empty --message all"):
            done = self.call("git", *command.split(), cwd=path)
            assert done.returncode == 0, done.stdout
        return self.call("git", "rev-parse", "HEAD", cwd=path).stdout.strip()

    def write(self, name: str, text: str) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def commit(self, *names: str) -> tuple[int, str]:
        """Stage these files and run pre-commit as ``git commit`` does."""
        assert self.call("git", "add", "--", *names).returncode == 0
        done = self.call(sys.executable, "-m", "pre_commit", "run", "--color", "never")
        return done.returncode, done.stdout


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    directory = tmp_path_factory.mktemp("hook")
    hook = directory / "checkout"
    for name in PACKAGES:
        shutil.copytree(ROOT / name, hook / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in PARTS:
        shutil.copy(ROOT / name, hook / name)
    (directory / "project").mkdir()
    found = Repository(directory / "project", hook)
    installed = found.call(sys.executable, "-m", "pre_commit", "install-hooks")
    assert installed.returncode == 0, installed.stdout
    return found


def test_a_commit_is_judged_with_the_whole_project(repository: Repository) -> None:
    repository.write("tools.py", "def add(a, b):\n    return b + a\n")
    code, said = repository.commit("tools.py")
    assert (code, said.splitlines()[-1].split(".")[0]) == (0, "mla-guard"), said
    assert said.rstrip().endswith("Passed")

    # only the base is staged; what breaks is a class in a file that is not
    repository.write("engine/base.py", BASE.replace("batch):", "batch, flag=False):"))
    code, said = repository.commit("engine/base.py")
    assert code == 1
    assert "engine/first.py:5:9: MLA101 First.plan cannot be called as" in said
    assert "  engine/base.py:2:9: AttentionBackend.plan is declared here" in said
    assert "Found 1 " in said

    # what is not staged does not count
    repository.write("engine/first.py", CHILD.format("First").replace("h):", "h, flag=False):"))
    assert repository.commit("engine/base.py")[0] == 1
    code, said = repository.commit("engine/first.py")
    assert code == 0, said


def test_settings_are_checked_and_other_files_are_not(repository: Repository) -> None:
    repository.commit_all(repository.path)
    repository.write("NOTES.md", "nothing\n")
    code, said = repository.commit("NOTES.md")
    assert (code, said.rstrip().endswith("(no files to check)Skipped")) == (0, True), said
    repository.write("pyproject.toml", "[tool.mla-guard]\nselct = []\n")
    code, said = repository.commit("pyproject.toml")
    assert code == 1
    assert "unknown key 'selct' (did you mean 'select'?)" in said


def test_its_environment_has_the_linter_and_no_torch(repository: Repository) -> None:
    repository.commit_all(repository.path)
    [python] = repository.home.glob("repo*/py_env-*/bin/python")
    program = (
        "import importlib.util as u; print([bool(u.find_spec(n)) for n in ('libcst','torch')])"
    )
    assert repository.call(str(python), "-c", program).stdout == "[True, False]\n"
