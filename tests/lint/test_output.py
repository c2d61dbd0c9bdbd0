"""The formats for people, json and the summary line, compared whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lint_rules.output import render, shown, summary
from mla_guard.diagnostic import Diagnostic, Place, Related

BASE = Path("/project")
DRIFT = Diagnostic(
    code="MLA101",
    severity="error",
    message="'TRTLLM.plan' cannot be called as 'Base.plan' can",
    place=Place("/project/engine/trtllm.py", 12, 9),
    symbol="TRTLLM.plan",
    related=(Related(Place("/elsewhere/base.py", 3, 5), "'Base.plan' is declared here"),),
    reasons=("drops 'flag' (position 2)",),
    hint="accept 'flag'",
)
LATENT = Diagnostic("MLA202", "warning", "reads 'x'", Place("/project/a.py", 1), "A.f")


def test_text() -> None:
    assert render([DRIFT, LATENT], "text", BASE) == (
        "engine/trtllm.py:12:9: MLA101 'TRTLLM.plan' cannot be called as 'Base.plan' can "
        "[hook-signature-drift]\n"
        "  /elsewhere/base.py:3:5: 'Base.plan' is declared here\n"
        "  - drops 'flag' (position 2)\n"
        "  hint: accept 'flag'\n"
        "\n"
        "a.py:1:1: MLA202 reads 'x' [unguarded-attribute] (warning)"
    )


def test_concise() -> None:
    assert render([DRIFT, LATENT], "concise", BASE) == (
        "engine/trtllm.py:12:9: MLA101 'TRTLLM.plan' cannot be called as 'Base.plan' can "
        "[hook-signature-drift]\n"
        "a.py:1:1: MLA202 reads 'x' [unguarded-attribute] (warning)"
    )


def test_json() -> None:
    assert json.loads(render([DRIFT], "json", BASE)) == [
        {
            "code": "MLA101",
            "name": "hook-signature-drift",
            "severity": "error",
            "message": "'TRTLLM.plan' cannot be called as 'Base.plan' can",
            "path": "engine/trtllm.py",
            "line": 12,
            "column": 9,
            "symbol": "TRTLLM.plan",
            "related": [
                {"path": "/elsewhere/base.py", "line": 3, "message": "'Base.plan' is declared here"}
            ],
            "reasons": ["drops 'flag' (position 2)"],
            "hint": "accept 'flag'",
        }
    ]


def test_nothing_to_say() -> None:
    assert render([], "text", BASE) == ""
    assert render([], "concise", BASE) == ""
    assert render([], "json", BASE) == "[]"


@pytest.mark.parametrize(
    ("findings", "classes", "files", "line"),
    [
        ([], 78, 4719, "No findings in 78 backend classes (4719 files)."),
        ([DRIFT], 1, 1, "Found 1 error in 1 backend class (1 file). 1 {hint}"),
        ([LATENT], 2, 3, "Found 1 warning in 2 backend classes (3 files). 1 {hint}"),
        (
            [DRIFT, DRIFT, LATENT],
            2,
            3,
            "Found 2 errors, 1 warning in 2 backend classes (3 files). 3 {hint}",
        ),
    ],
)
def test_summary(findings: list[Diagnostic], classes: int, files: int, line: str) -> None:
    assert summary(findings, classes, files) == line.format(hint="may be repairable with --fix.")


def test_paths_that_are_relative_already_stay() -> None:
    assert shown("engine/a.py", BASE) == "engine/a.py"
    assert shown("/project2/a.py", BASE) == "/project2/a.py"
