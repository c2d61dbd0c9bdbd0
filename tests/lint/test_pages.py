"""Every rule has a page, and the page holds: each block yields exactly what it announces."""

from __future__ import annotations

from pathlib import Path

import pytest

from lint_rules.config import Config
from lint_rules.fix import fix
from lint_rules.fixed import diff
from lint_rules.fixed import write as write_fixed
from lint_rules.pages import PageError, page, summary
from lint_rules.repairs import REPAIRS
from mla_guard.diagnostic import LINT_RULES, RULE_NAMES
from tests.lint.pages_harness import (
    ANNOUNCING,
    REPAIR,
    SECTIONS,
    SILENT,
    Block,
    blocks,
    findings,
    plain,
    refusals,
    repair_shown,
    sections,
    write,
)


def _cases() -> list[pytest.ParameterSet]:
    cases = []
    for code in RULE_NAMES:
        try:
            found = blocks(page(code))
        except (PageError, ValueError):
            continue  # test_page_is_complete says so
        cases += [pytest.param(code, b, id=f"{code} {b.section}, line {b.line}") for b in found]
    return cases


@pytest.mark.parametrize("code", RULE_NAMES)
def test_page_is_complete(code: str) -> None:
    text = page(code)
    assert text.splitlines()[0] == f"# {code}: {RULE_NAMES[code]}"
    repaired = (REPAIR,) if code in REPAIRS else ()
    place = SECTIONS.index("Not reported")
    assert tuple(sections(text)) == (*SECTIONS[:place], *repaired, *SECTIONS[place:])
    assert summary(code).endswith(".")
    assert {block.section for block in blocks(text)} == {ANNOUNCING, *repaired, *SILENT}
    announced = {e.code for block in blocks(text) for e in block.expected()}
    assert code in announced


@pytest.mark.parametrize(("code", "block"), _cases())
def test_block_yields_what_it_announces(code: str, block: Block, tmp_path: Path) -> None:
    expected = block.expected()
    assert bool(expected) == (block.section not in SILENT)
    write(block.files, tmp_path)
    judge = findings if code in LINT_RULES else refusals
    assert judge(tmp_path) == expected


@pytest.mark.parametrize("code", REPAIRS)
def test_the_repair_is_the_one_shown(code: str, tmp_path: Path) -> None:
    [block] = [b for b in blocks(page(code)) if b.section == REPAIR]
    assert code in {e.code for e in block.expected()}
    write({path: plain(text) for path, text in block.files.items()}, tmp_path)
    config = Config(src=(tmp_path,), root=tmp_path)
    fixed = fix([tmp_path], config)
    assert diff(fixed, tmp_path) == repair_shown(page(code))
    write_fixed(fixed)
    assert findings(tmp_path) == []
    assert fix([tmp_path], config).after == {}


@pytest.mark.parametrize(("code", "block"), [c for c in _cases() if c.values[0] in REPAIRS])
def test_a_repair_leaves_no_new_finding(code: str, block: Block, tmp_path: Path) -> None:
    write({path: plain(text) for path, text in block.files.items()}, tmp_path)
    before = {(e.path, e.code, e.message) for e in findings(tmp_path)}
    fixed = fix([tmp_path], Config(src=(tmp_path,), root=tmp_path))
    write_fixed(fixed)
    after = {(e.path, e.code, e.message) for e in findings(tmp_path)}
    assert after <= before
    assert len(fixed.repaired) <= len(before) - len(after)
    assert bool(fixed.repaired) == bool(fixed.after)
