"""Several processes give what one does."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import pytest

import lint_rules.crew
import lint_rules.run
import lint_rules.tree
from lint_rules.cache import Cache
from lint_rules.config import load_config
from lint_rules.crew import Crew
from lint_rules.halves import from_both_ends
from lint_rules.run import check
from tests.lint.edits import Tree


@pytest.mark.parametrize("cores", [2, 3, 8])
def test_a_crew_and_halves_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int
) -> None:
    tree = Tree(tmp_path, Random(5))
    config = load_config([tmp_path])
    alone = [check([tmp_path], config)]
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    monkeypatch.setattr(lint_rules.crew, "_WORTH_BYTES", 0)
    monkeypatch.setattr(lint_rules.run, "_WORTH_HALVING", 0)
    cache = Cache(tmp_path / ".cache")
    assert check([tmp_path], config, cache=cache) == alone[0]
    for _ in range(6):
        tree.edit()
        assert check([tmp_path], config, cache=cache) == check([tmp_path], config)


def test_a_new_name_is_looked_for_where_every_row_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Tree(tmp_path, Random(5))
    (tmp_path / "engine" / "tools.py").write_text(
        "class Tool:\n    pass\n\n\nclass Saw(Tool):\n    pass\n"
    )
    config = load_config([tmp_path])
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(lint_rules.crew, "_WORTH_BYTES", 0)
    monkeypatch.setattr(lint_rules.tree, "GRANULARITY_NS", 0)
    cache = Cache(tmp_path / ".cache")
    check([tmp_path], config, cache=cache)
    asking = replace(config, bases=("Tool",))
    assert check([tmp_path], asking, cache=cache) == check([tmp_path], asking)


def test_every_task_is_done_once_and_in_order(tmp_path: Path) -> None:
    for count in (0, 1, 2, 40):
        folder = tmp_path / str(count)
        folder.mkdir()
        tasks = [partial(_noted, folder, number) for number in range(count)]
        assert from_both_ends(tasks) == list(range(count))
        assert len(list(folder.iterdir())) == count


def _noted(folder: Path, number: int) -> int:
    (folder / str(number)).touch(exist_ok=False)
    return number


def test_a_process_that_ends_early_is_an_error(tmp_path: Path) -> None:
    ended = tmp_path / "ended"

    def wait() -> None:
        while not ended.exists():
            time.sleep(0.001)

    def end() -> None:
        ended.touch()
        os._exit(1)

    with pytest.raises(RuntimeError, match="that judges has ended early"):
        from_both_ends([wait, end])
    crew = Crew(1)
    crew._processes[0].kill()
    with pytest.raises(RuntimeError, match="that reads sources has ended early"):
        crew.each("collect", [[]])
    crew.close()
