"""The files that a check reads are those that git does not ignore."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from random import Random

import pytest

from lint_rules.config import Config
from lint_rules.tree import list_files

PATTERNS = [
    "alpha", "beta/", "/gamma", "alpha/beta", "*.gen.py", "*_pb2.py", "!keep_pb2.py", "de*a.py",
    "**/gamma/*.py", "!gamma/one.py", "o?e.py", "[st]*.py", "delta.py", "# note", "", "!alpha.py",
    "*.py,cover", "two.py ", "/beta/*", "!/beta/keep_pb2.py",
]  # fmt: skip
FOLDERS = ["", "alpha", "beta", "gamma", "beta/gamma", "gamma/alpha"]
NAMES = [
    "alpha.py", "one.py", "two.py", "delta.py", "dela.py", "x.gen.py", "x_pb2.py", "keep_pb2.py",
    "some.py", "three.py",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_what_is_read_is_what_git_does_not_ignore(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    for folder in FOLDERS:
        (tmp_path / folder).mkdir(exist_ok=True)
        for name in NAMES:
            (tmp_path / folder / name).touch()
    for folder in ("", *random.sample(FOLDERS[1:], 2)):
        lines = random.sample(PATTERNS, random.randint(2, 7))
        (tmp_path / folder / ".gitignore").write_text("\n".join(lines) + "\n")
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, env=environment, check=True)
    told = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard", "-z", "*.py"],
        cwd=tmp_path, env=environment, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    read = {
        str(Path(path).relative_to(tmp_path)) for path in list_files([tmp_path], Config()).files
    }
    assert read == {name for name in told.split("\0") if name}
