"""A check of unsaved text gives what one of a tree that holds it does, and leaves no trace."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random

import pytest

import lint_rules.tree
from lint_rules.cache import Cache
from lint_rules.config import ConfigError, load_config
from lint_rules.finished import Asked, recall
from lint_rules.report import packed
from lint_rules.run import check
from tests.lint.edits import FILES, Tree

EDITS, SEEDS = 100, (1, 2)


def outcome(root: Path, cache: Cache | None = None, unsaved: dict[str, bytes] | None = None) -> str:
    """What a check says, with paths relative to ``root``."""
    try:
        report = check([root], load_config([root]), cache=cache, unsaved=unsaved or {})
    except ConfigError as error:
        return str(error)
    return json.dumps(packed(report)).replace(f"{root}/", "")


def codes(outcome: str) -> list[str]:
    return [code for code in ("MLA001", "MLA101", "MLA102", "MLA203") if code in outcome]


@pytest.mark.parametrize("seed", SEEDS)
def test_unsaved_edits_are_judged_as_saved_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(lint_rules.tree, "GRANULARITY_NS", 8_000_000)
    random = Random(seed)
    saved, disk = tmp_path / "saved", tmp_path / "disk"
    saved.mkdir()
    disk.mkdir()
    tree = Tree(saved, random)
    Tree(disk, random)
    cache = Cache(tmp_path / ".cache")
    seen: Counter[str] = Counter()
    history: list[str] = []
    for _ in range(EDITS):
        history.append(tree.edit())
        unsaved: dict[str, bytes] = {}
        for name in FILES:
            there, here = saved / name, disk / name
            if not there.exists():
                here.unlink(missing_ok=True)
            elif not here.exists() or random.random() < 0.3:
                here.write_bytes(there.read_bytes())
            else:
                unsaved[str(here)] = there.read_bytes()
        assert outcome(disk, cache, unsaved) == outcome(saved), history[-10:]
        if random.random() < 0.5:
            on_disk = outcome(disk)
            assert outcome(disk, cache) == on_disk, history[-10:]
            seen.update(codes(on_disk))
            seen["differing"] += on_disk != outcome(saved)
    # a comparison of equal trees shows nothing, and neither does one of empty reports
    assert {"MLA001", "MLA101", "MLA102", "MLA203", "differing"} <= seen.keys()


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The miniature engine, written long ago."""
    monkeypatch.setattr(lint_rules.tree, "GRANULARITY_NS", 0)
    root = tmp_path / "project"
    root.mkdir()
    Tree(root, Random(0))
    return root


def test_a_report_of_unsaved_text_is_not_that_of_the_files(engine: Path, tmp_path: Path) -> None:
    cache, config = Cache(tmp_path / "cache"), load_config([engine])
    fast = engine / "engine" / "fast.py"
    text = fast.read_bytes().replace(b"def plan(self, batch):", b"def plan(self, x, y):")
    unsaved = check([engine], config, unsaved={str(fast): text}, cache=cache)
    assert recall(cache, Asked([engine], config).key()) is None
    on_disk = check([engine], config, cache=cache)
    assert recall(cache, Asked([engine], config).key()) == on_disk != unsaved
    # with the report of the files at hand, the text still counts
    assert check([engine], config, unsaved={str(fast): text}, cache=cache) == unsaved
    assert recall(cache, Asked([engine], config).key()) == on_disk
    fast.write_bytes(text)
    assert check([engine], config, cache=cache) == unsaved == check([engine], config)


def test_unsaved_text_of_a_file_that_is_not_checked_is_nothing(
    engine: Path, tmp_path: Path
) -> None:
    cache, config = Cache(tmp_path / "cache"), load_config([engine])
    (engine / ".gitignore").write_text("scratch.py\n")
    ignored, gone = engine / "scratch.py", engine / "gone.py"
    ignored.write_text("")
    text = b"from engine.base import AttentionBackend\n\n\nclass New(AttentionBackend):\n    pass\n"
    on_disk = check([engine], config)
    unsaved = {str(ignored): text, str(gone): text}
    assert check([engine], config, unsaved=unsaved, cache=cache) == on_disk
    assert check([engine], config, unsaved=unsaved, cache=cache) == on_disk
