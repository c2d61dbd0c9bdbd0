"""Ignore comments: what they cover, and what is said about those that are wrong or stale."""

from __future__ import annotations

import pytest

from lint_rules.suppression import apply_ignores
from mla_guard.diagnostic import Diagnostic, Place


def finding(line: int, code: str = "MLA101", path: str = "a.py") -> Diagnostic:
    return Diagnostic(code, "error", "a message", Place(path, line, 5), "Backend.hook")


def left(source: str, *findings: Diagnostic) -> list[tuple[str, int, str, str]]:
    """What remains of ``findings`` in a file with this source, and what the ignores add."""
    result = apply_ignores(findings, [("a.py", source.encode())])
    return [(d.code, d.place.line, d.severity, d.message) for d in result]


UNUSED = "nothing to ignore here: MLA101 is not reported"


def test_an_ignore_covers_its_code_on_its_line() -> None:
    source = "x = 1\ny = 2  # mla-guard: ignore[MLA101] the caller checks\n"
    assert left(source, finding(2)) == []
    assert left(source, finding(2), finding(2, "MLA102"), finding(1)) == [
        ("MLA102", 2, "error", "a message"),
        ("MLA101", 1, "error", "a message"),
    ]


def test_several_codes_and_other_comments_share_a_line() -> None:
    source = "y = 2  # noqa: E501  # mla-guard: ignore[MLA101, MLA202] meant  # type: ignore\n"
    assert left(source, finding(1), finding(1, "MLA202")) == []


@pytest.mark.parametrize("at", [2, 5], ids=["its first line", "its last line, where ruff moves it"])
def test_at_either_end_of_a_statement_header_it_covers_the_header(at: int) -> None:
    lines = [
        "class A:",
        "    def hook(",
        "        self,",
        "        batch,",
        "    ):",
        "        pass",
    ]
    lines[at - 1] += "  # mla-guard: ignore[MLA101] no caller"
    source = "\n".join(lines) + "\n"
    for line in (2, 3, 4, 5):
        assert left(source, finding(line)) == []
    assert left(source, finding(6)) == [
        ("MLA101", 6, "error", "a message"),
        ("MLA001", at, "warning", UNUSED),
    ]


def test_in_between_it_covers_its_own_line_only() -> None:
    source = "call(\n    a,  # mla-guard: ignore[MLA101] meant\n    b,\n)\n"
    assert left(source, finding(2)) == []
    assert [entry[:2] for entry in left(source, finding(1))] == [("MLA101", 1), ("MLA001", 2)]
    assert [entry[:2] for entry in left(source, finding(3))] == [("MLA101", 3), ("MLA001", 2)]


def test_a_line_of_its_own_covers_nothing() -> None:
    source = "# mla-guard: ignore[MLA101] misplaced\nx = 1\n"
    assert [entry[:2] for entry in left(source, finding(2))] == [("MLA101", 2), ("MLA001", 1)]


def test_an_unused_ignore_is_reported_at_the_comment() -> None:
    [found] = apply_ignores([], [("a.py", b"x = 1  # mla-guard: ignore[MLA101] old\n")])
    assert found == Diagnostic("MLA001", "warning", UNUSED, Place("a.py", 1, 8), symbol="")


def test_one_used_code_does_not_excuse_the_other() -> None:
    source = "x = 1  # mla-guard: ignore[MLA202, MLA101] both?\n"
    assert left(source, finding(1, "MLA202")) == [("MLA001", 1, "warning", UNUSED)]


def test_an_ignore_is_only_judged_where_its_rule_ran() -> None:
    source = [("a.py", b"x = 1  # mla-guard: ignore[MLA101] old\n")]
    assert apply_ignores([], source, lambda code: code != "MLA101") == []
    assert apply_ignores([], source, lambda code: code != "MLA001") == []


def test_an_ignore_counts_in_its_own_file_only() -> None:
    source = "x = 1  # mla-guard: ignore[MLA101] here\n"
    assert left(source, finding(1, path="b.py")) == [
        ("MLA101", 1, "error", "a message"),
        ("MLA001", 1, "warning", UNUSED),
    ]


@pytest.mark.parametrize(
    ("comment", "message"),
    [
        ("ignore", "an ignore names its codes, as in 'ignore[MLA101] reason', not 'ignore'"),
        ("ignore[]", "an ignore names its codes, as in 'ignore[MLA101] reason', not 'ignore[]'"),
        (
            "ignore[MLA101",
            "an ignore names its codes, as in 'ignore[MLA101] reason', not 'ignore[MLA101'",
        ),
        ("ignored", "an ignore names its codes, as in 'ignore[MLA101] reason', not 'ignored'"),
        ("", "an ignore names its codes, as in 'ignore[MLA101] reason', not 'nothing'"),
        ("ignore[MLA999]", "unknown code 'MLA999'"),
        ("ignore[mla101]", "unknown code 'mla101' (did you mean MLA101?)"),
        ("ignore[MLA1O1]", "unknown code 'MLA1O1' (did you mean MLA101?)"),
        (
            "ignore[unguarded-attribute]",
            "unknown code 'unguarded-attribute' (did you mean MLA202?)",
        ),
        ("ignore[MLA2]", "unknown code 'MLA2' (did you mean MLA302?)"),
        (
            "ignore[MLA001]",
            "MLA001 is about the ignores themselves: leave it out with --ignore MLA001",
        ),
    ],
)
def test_what_cannot_be_understood_is_reported_and_ignores_nothing(
    comment: str, message: str
) -> None:
    assert left(f"x = 1  # mla-guard: {comment}\n", finding(1)) == [
        ("MLA101", 1, "error", "a message"),
        ("MLA002", 1, "warning", message),
    ]


def test_a_code_named_twice_still_counts_once() -> None:
    assert left("x = 1  # mla-guard: ignore[MLA101, MLA101]\n", finding(1)) == [
        ("MLA002", 1, "warning", "names MLA101 twice")
    ]


def test_strings_are_no_comments() -> None:
    source = 'x = "# mla-guard: ignore[MLA101] text"\n"""\n# mla-guard: ignore\n"""\n'
    assert left(source, finding(1)) == [("MLA101", 1, "error", "a message")]


def test_before_a_syntax_error_ignores_count() -> None:
    source = "x = 1  # mla-guard: ignore[MLA101] meant\ny = (\n"
    assert left(source, finding(1)) == []


def test_a_declared_encoding_is_respected() -> None:
    source = "# coding: latin-1\nx = 'é'  # mla-guard: ignore[MLA101] é\n".encode("latin-1")
    assert apply_ignores([finding(2)], [("a.py", source)]) == []
