"""Every rule has a page, and the page holds: each block yields exactly what it announces."""

from __future__ import annotations

from pathlib import Path

import pytest

from lint_rules.pages import PageError, page, summary
from mla_guard.diagnostic import LINT_RULES, RULE_NAMES
from tests.lint.pages_harness import (
    ANNOUNCING,
    SECTIONS,
    SILENT,
    Block,
    blocks,
    findings,
    refusals,
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
    assert tuple(sections(text)) == SECTIONS
    assert summary(code).endswith(".")
    assert {block.section for block in blocks(text)} == {ANNOUNCING, *SILENT}
    announced = {e.code for block in blocks(text) for e in block.expected()}
    assert code in announced


@pytest.mark.parametrize(("code", "block"), _cases())
def test_block_yields_what_it_announces(code: str, block: Block, tmp_path: Path) -> None:
    expected = block.expected()
    assert bool(expected) == (block.section == ANNOUNCING)
    write(block.files, tmp_path)
    judge = findings if code in LINT_RULES else refusals
    assert judge(tmp_path) == expected
