"""A module parsed part by part is the module parsed at once, or the same refusal."""

from __future__ import annotations

from pathlib import Path
from random import Random

import libcst as cst
import pytest
from libcst.metadata import MetadataWrapper, PositionProvider

import lint_rules
import mla_runtime
from lint_rules.extract import _Extractor, _Positions, extract
from lint_rules.facts import FileFacts
from lint_rules.nodes import lightened

SOURCES = sorted(
    path
    for package in (lint_rules, mla_runtime)
    for folder in package.__path__
    for path in Path(folder).rglob("*.py")
    if path.stat().st_size < 12_000
)


def at_once(source: str) -> FileFacts | None:
    """The facts of the whole tree as LibCST gives it, positions included; None if it refuses."""
    try:
        wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
    except cst.ParserSyntaxError:
        return None
    positions = _Positions(wrapper.resolve(PositionProvider))
    return _Extractor("m.py", positions).run(lightened(wrapper.module))


def damaged(source: str, random: Random) -> str:
    """``source`` with a line gone, doubled, moved, indented or cut."""
    lines = source.split("\n")
    at, kind = random.randrange(len(lines)), random.randrange(7)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(at, lines[at])
    elif kind == 2:
        lines.insert(random.randrange(len(lines)), lines.pop(at))
    elif kind == 3:
        lines[at] = " " * random.randrange(1, 5) + lines[at]
    elif kind == 4:
        lines[at] = lines[at].removeprefix(" " * random.randrange(1, 5))
    elif kind == 5:
        lines[at] = lines[at].replace("    ", "\t", 1)
    else:
        lines[at] = lines[at][: random.randrange(len(lines[at]) + 1)]
    return "\n".join(lines)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_sources_give_the_same_facts_or_are_refused(seed: int) -> None:
    random = Random(seed)
    refused = 0
    for path in random.sample(SOURCES, 15):
        source = path.read_text(encoding="utf-8")
        for _ in range(5):
            text = damaged(source, random)
            expected = at_once(text)
            found = extract("m.py", text)
            if expected is None:
                refused += 1
                assert found.error, text
            else:
                assert found == expected, text
    assert refused
