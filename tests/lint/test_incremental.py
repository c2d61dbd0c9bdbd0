"""After any edit, a check with a cache gives what a check without one does."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

import lint_rules.kept
import lint_rules.library
import lint_rules.tree
from lint_rules.cache import Cache
from lint_rules.config import ConfigError, load_config
from lint_rules.report import Report
from lint_rules.run import check
from tests.lint.edits import Tree

EDITS, SEEDS = 250, (1, 2, 3, 4)


def outcome(root: Path, cache: Cache | None) -> Report | str:
    try:
        return check([root], load_config([root]), cache=cache)
    except ConfigError as error:
        return str(error)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_result_after_each_edit_is_that_of_a_cold_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    # so short that files count as settled between two edits, most of the time
    monkeypatch.setattr(lint_rules.tree, "GRANULARITY_NS", 8_000_000)
    # so few that the large file of facts is written anew now and then, and not each time
    monkeypatch.setattr(lint_rules.library, "_MOST_RECENT", 3)
    tree = Tree(tmp_path, Random(seed))
    cache = Cache(tmp_path / ".cache")
    seen: Counter[str] = Counter()
    stands = lint_rules.kept.Kept._stands

    def counted(self: lint_rules.kept.Kept, record: lint_rules.kept.Record) -> bool:
        found = stands(self, record)
        seen["stood" if found else "fallen"] += 1
        return found

    monkeypatch.setattr(lint_rules.kept.Kept, "_stands", counted)
    history: list[str] = []
    for _ in range(EDITS):
        history.append(tree.edit())
        cold = outcome(tmp_path, None)
        assert outcome(tmp_path, cache) == cold, history[-10:]
        if isinstance(cold, Report):
            seen.update(d.code for d in cold.diagnostics)
            seen["failures"] += len(cold.failures)
    # the edits are of no use where nothing is ever found, or nothing stands
    assert seen["stood"] > EDITS
    assert {"MLA001", "MLA101", "MLA102", "MLA203", "MLA206", "failures", "fallen"} <= seen.keys()
