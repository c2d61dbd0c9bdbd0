"""Where the comment goes that has a finding ignored: the linter says whether it covers that."""

from __future__ import annotations

import pytest

from lint_rules.server.actions import Insertion, ignoring
from lint_rules.suppression import read_ignores

IGNORE = "  # mla-guard: ignore[MLA101] reason"


def ignored(source: str, line: int) -> str:
    """``source`` with MLA101 at ``line`` ignored."""
    lines = source.split("\n")
    edit = ignoring("MLA101", lines, line)
    assert edit is not None
    text = lines[edit.line - 1]
    lines[edit.line - 1] = text[: edit.column] + edit.text + text[edit.column :]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("source", "line", "expected"),
    [
        ("def plan(self): ...\n", 1, f"def plan(self): ...{IGNORE}\n"),
        ("def plan(self): ...  \n", 1, f"def plan(self): ...{IGNORE}  \n"),
        ("a = 1  # why\n", 1, f"a = 1  # why{IGNORE}\n"),
        ("call(\n    a,\n    b,\n)\n", 2, f"call(\n    a,{IGNORE}\n    b,\n)\n"),
        ("a = b + \\\n    c\nd\n", 1, f"a = b + \\\n    c{IGNORE}\nd\n"),
        ('a(f"""\n  {b}\n""", 1)\n', 1, f'a(f"""\n  {{b}}\n""", 1){IGNORE}\n'),
        (
            "a = 1  # mla-guard: ignore[MLA102] why\n",
            1,
            "a = 1  # mla-guard: ignore[MLA102, MLA101] why\n",
        ),
    ],
)
def test_the_comment_covers_the_line(source: str, line: int, expected: str) -> None:
    found = ignored(source, line)
    assert found == expected
    [ignore], invalid = read_ignores("a.py", found.encode())
    assert invalid == []
    assert "MLA101" in ignore.codes
    assert line in ignore.covers


def test_what_is_ignored_already_is_not_ignored_again() -> None:
    assert ignoring("MLA101", ["a = 1  # mla-guard: ignore[MLA101] why"], 1) is None


@pytest.mark.parametrize("code", ["MLA001", "MLA002"])
def test_findings_about_ignores_cannot_be_ignored(code: str) -> None:
    assert ignoring(code, ["a = 1"], 1) is None


def test_text_that_ends_inside_a_string_takes_no_comment() -> None:
    assert ignoring("MLA101", ['a = """', "open"], 1) is None


def test_an_insertion_is_where_it_says() -> None:
    assert ignoring("MLA101", ["a = 1", "b = 2"], 2) == Insertion(2, 5, IGNORE)
