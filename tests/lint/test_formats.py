"""What CI systems read, as independent parsers and the official schema read it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import junitparser
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft4Validator, Draft202012Validator

from lint_rules.formats.fingerprint import fingerprints
from lint_rules.output import render
from lint_rules.pages import page
from lint_rules.run import FileFailure
from mla_guard import __version__
from mla_guard.diagnostic import Diagnostic, Place, Related

BASE = Path("/project")
DRIFT = Diagnostic(
    code="MLA101",
    severity="error",
    message="'TRTLLM.plan' cannot be called as 'Base.plan' can",
    place=Place("/project/engine/trtllm.py", 12, 9),
    symbol="TRTLLM.plan",
    related=(
        Related(Place("/project/engine/base [v2].py", 3, 5), "'Base.plan' is declared here"),
        Related(Place("/elsewhere/runner.py", 40, 1), "'Runner.run' passes 'flag'"),
    ),
    reasons=("drops 'flag' (position 2)",),
    hint="accept 'flag'",
)
LATENT = Diagnostic("MLA202", "warning", "reads 'x'", Place("/project/a.py", 7, 5), "A.f")
STALE = Diagnostic("MLA001", "warning", "nothing to ignore", Place("/project/a.py", 1), "")
FAILURE = FileFailure("/project/broken.py", 4, "expected 'except'")

SARIF_SCHEMA = json.loads(
    Path(__file__).with_name("schemas").joinpath("sarif-schema-2.1.0.json").read_text("utf-8")
)
# The table of https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format
CODE_QUALITY_SCHEMA = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "additionalProperties": False,
        "properties": {
            "description": {"type": "string", "minLength": 1},
            "check_name": {"type": "string", "minLength": 1},
            "fingerprint": {"type": "string", "minLength": 1},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path", "lines"],
                "properties": {
                    "path": {"type": "string", "pattern": "^[^/]"},
                    "lines": {
                        "type": "object",
                        "required": ["begin"],
                        "properties": {"begin": {"type": "integer", "minimum": 1}},
                    },
                },
            },
        },
    },
}


def finding(text: str, path: str = "/project/a.py") -> Diagnostic:
    related = (Related(Place(path, 2, 3), text),)
    return Diagnostic("MLA101", "error", text, Place(path, 1), text, related, (text,), text)


def sarif(*findings: Diagnostic, failures: tuple[FileFailure, ...] = ()) -> Any:
    """The only run of the report, which the schema accepts."""
    document = json.loads(render(findings, "sarif", BASE, failures))
    Draft4Validator(SARIF_SCHEMA).validate(document)
    [run] = document["runs"]
    return run


def test_sarif_names_both_ends_and_links_them() -> None:
    [result] = sarif(DRIFT)["results"]

    def location(uri: str, line: int, column: int, **base: str) -> dict[str, object]:
        region = {"startLine": line, "startColumn": column}
        return {"physicalLocation": {"artifactLocation": {"uri": uri, **base}, "region": region}}

    root = {"uriBaseId": "%SRCROOT%"}
    assert result == {
        "ruleId": "MLA101",
        "ruleIndex": 0,
        "level": "error",
        "message": {
            "text": "'TRTLLM.plan' cannot be called as 'Base.plan' can\n"
            "[engine/base \\[v2\\].py:3](1): 'Base.plan' is declared here\n"
            "[/elsewhere/runner.py:40](2): 'Runner.run' passes 'flag'\n"
            "- drops 'flag' (position 2)\n"
            "hint: accept 'flag'"
        },
        "locations": [
            {
                **location("engine/trtllm.py", 12, 9, **root),
                "logicalLocations": [{"fullyQualifiedName": "TRTLLM.plan"}],
            }
        ],
        "relatedLocations": [
            {
                "id": 1,
                **location("engine/base%20%5Bv2%5D.py", 3, 5, **root),
                "message": {"text": "'Base.plan' is declared here"},
            },
            {
                "id": 2,
                **location("file:///elsewhere/runner.py", 40, 1),
                "message": {"text": "'Runner.run' passes 'flag'"},
            },
        ],
        "partialFingerprints": {
            # sha256sum of path, code, symbol and 1, separated by NUL
            "pathCodeSymbol/v1": "ad53a7c83c0104bfb8113a6c71e37bc9b17dea2eb3f6819e6e81dc5fbfd7720c",
        },
    }


def test_sarif_explains_the_rules_that_found_something() -> None:
    run = sarif(LATENT, DRIFT, LATENT)
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("mla-guard", __version__)
    assert [rule["id"] for rule in driver["rules"]] == ["MLA101", "MLA202"]
    assert driver["rules"][0] == {
        "id": "MLA101",
        "name": "hook-signature-drift",
        "shortDescription": {"text": "Hook signature drift"},
        "fullDescription": {
            "text": "Reports an override of a hook that cannot be called as the nearest parent "
            "that declares the hook can."
        },
        "help": {"text": page("MLA101"), "markdown": page("MLA101")},
    }
    assert [(r["ruleId"], r["ruleIndex"]) for r in run["results"]] == [
        ("MLA202", 1),
        ("MLA101", 0),
        ("MLA202", 1),
    ]


def test_sarif_says_what_was_not_checked() -> None:
    assert sarif(LATENT)["invocations"] == [
        {"executionSuccessful": True, "toolExecutionNotifications": []}
    ]
    [invocation] = sarif(failures=(FAILURE,))["invocations"]
    assert invocation["executionSuccessful"] is False
    [notification] = invocation["toolExecutionNotifications"]
    assert notification["message"] == {"text": "cannot be checked: expected 'except'"}
    [location] = notification["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "broken.py"


def test_sarif_of_a_finding_without_a_symbol() -> None:
    [result] = sarif(STALE)["results"]
    assert "logicalLocations" not in result["locations"][0]


def test_the_schema_refuses_what_is_no_sarif() -> None:
    document = json.loads(render([DRIFT], "sarif", BASE))
    document["runs"][0]["results"][0]["level"] = "fatal"
    [error] = Draft4Validator(SARIF_SCHEMA).iter_errors(document)
    assert list(error.path) == ["runs", 0, "results", 0, "level"]


def test_fingerprints_ignore_lines_and_words_but_not_path_code_or_symbol() -> None:
    moved = Diagnostic(
        "MLA101", "warning", "other words", Place(DRIFT.place.path, 90), "TRTLLM.plan"
    )
    assert fingerprints([DRIFT]) == fingerprints([moved])
    others = [
        Diagnostic("MLA102", "error", "", DRIFT.place, "TRTLLM.plan"),
        Diagnostic("MLA101", "error", "", DRIFT.place, "TRTLLM.run"),
        Diagnostic("MLA101", "error", "", Place("/project/b.py", 12, 9), "TRTLLM.plan"),
    ]
    # of two that share all three, the first keeps its fingerprint
    digests = fingerprints([DRIFT, *others, moved])
    assert len(set(digests)) == 5
    assert digests[0] == fingerprints([moved])[0]


def workflow_command(line: str) -> tuple[str, dict[str, str], str]:
    """Kind, properties and message, split and unescaped as actions/runner does.

    After ``ActionCommand.TryParseV2`` in ``src/Runner.Common/ActionCommand.cs`` of
    https://github.com/actions/runner.
    """
    assert line.startswith("::")
    info, _, data = line[2:].partition("::")
    kind, _, rest = info.partition(" ")

    def unescaped(text: str, *more: tuple[str, str]) -> str:
        for code, character in (("%0D", "\r"), ("%0A", "\n"), *more, ("%25", "%")):
            text = text.replace(code, character)
        return text

    pairs = (part.split("=", 1) for part in rest.strip().split(",") if part)
    found = {key: unescaped(value, ("%3A", ":"), ("%2C", ",")) for key, value in pairs}
    return kind, found, unescaped(data)


def commands(*findings: Diagnostic, failures: tuple[FileFailure, ...] = ()) -> list[Any]:
    return [workflow_command(c) for c in render(findings, "github", BASE, failures).split("\n")]


def test_github_annotates_both_ends() -> None:
    assert commands(DRIFT) == [
        (
            "error",
            {
                "file": "engine/trtllm.py",
                "line": "12",
                "col": "9",
                "title": "mla-guard: MLA101 hook-signature-drift",
            },
            "engine/trtllm.py:12:9: MLA101 'TRTLLM.plan' cannot be called as 'Base.plan' can "
            "[hook-signature-drift]\n"
            "  engine/base [v2].py:3:5: 'Base.plan' is declared here\n"
            "  /elsewhere/runner.py:40:1: 'Runner.run' passes 'flag'\n"
            "  - drops 'flag' (position 2)\n"
            "  hint: accept 'flag'",
        ),
        (
            "notice",
            {
                "file": "engine/base [v2].py",
                "line": "3",
                "col": "5",
                "title": "mla-guard: other end of MLA101 hook-signature-drift",
            },
            "engine/base [v2].py:3:5: 'Base.plan' is declared here\n"
            "engine/trtllm.py:12:9: MLA101 'TRTLLM.plan' cannot be called as 'Base.plan' can "
            "[hook-signature-drift]",
        ),
    ]


def test_github_puts_errors_first_and_says_what_was_not_checked() -> None:
    found = commands(LATENT, DRIFT, failures=(FAILURE,))
    assert [(kind, where["file"]) for kind, where, _ in found] == [
        ("error", "broken.py"),
        ("error", "engine/trtllm.py"),
        ("notice", "engine/base [v2].py"),
        ("warning", "a.py"),
    ]
    assert found[0][2] == "broken.py:4:1: expected 'except'"


@given(st.text(min_size=1), st.text(st.characters(exclude_characters="/.")))
def test_github_escapes_whatever_a_file_or_a_message_is_called(text: str, name: str) -> None:
    (kind, where, said), (_, other, _) = commands(finding(text, f"/project/{name}.py"))
    assert (kind, where["file"], where["line"]) == ("error", f"{name}.py", "1")
    assert (other["file"], other["line"]) == (f"{name}.py", "2")
    assert said.endswith(f"\n  - {text}\n  hint: {text}")


@given(st.text(), st.text())
def test_junit_is_xml_whatever_a_message_holds(text: str, path: str) -> None:
    root = ElementTree.fromstring(render([finding(text, f"/project/{path}x")], "junit", BASE))
    assert (root.tag, root.attrib["failures"]) == ("testsuites", "1")


def test_junit_has_a_case_for_each_finding() -> None:
    report = render([DRIFT, LATENT, STALE, LATENT], "junit", BASE, (FAILURE,))
    suites = junitparser.JUnitXml.fromstring(report.encode())
    assert (suites.tests, suites.failures, suites.errors) == (5, 4, 1)
    found = [
        (
            suite.name,
            case.classname,
            case.name,
            type(outcome).__name__,
            outcome.type,
            outcome.message,
        )
        for suite in suites
        for case in suite
        for outcome in case.result
    ]
    assert found == [
        ("broken.py", "broken.py", "can be checked", "Error", "error", "expected 'except'"),
        (
            "engine/trtllm.py",
            "engine/trtllm.py",
            "MLA101 TRTLLM.plan",
            "Failure",
            "error",
            "'TRTLLM.plan' cannot be called as 'Base.plan' can",
        ),
        ("a.py", "a.py", "MLA202 A.f", "Failure", "warning", "reads 'x'"),
        ("a.py", "a.py", "MLA001", "Failure", "warning", "nothing to ignore"),
        ("a.py", "a.py", "MLA202 A.f (2)", "Failure", "warning", "reads 'x'"),
    ]
    [case] = [case for suite in suites for case in suite if case.name == "MLA101 TRTLLM.plan"]
    assert case.result[0].text == render([DRIFT], "text", BASE)


def test_junit_without_findings_has_one_case_that_passed() -> None:
    suites = junitparser.JUnitXml.fromstring(render([], "junit", BASE).encode())
    assert (suites.tests, suites.failures, suites.errors) == (1, 0, 0)
    assert [(case.name, case.is_passed) for suite in suites for case in suite] == [("check", True)]


def test_gitlab_is_a_code_quality_report() -> None:
    report = json.loads(render([DRIFT, LATENT, LATENT], "gitlab", BASE, (FAILURE,)))
    Draft202012Validator(CODE_QUALITY_SCHEMA).validate(report)
    assert [
        (i["check_name"], i["severity"], i["location"]["path"], i["location"]["lines"]["begin"])
        for i in report
    ] == [
        ("cannot-be-checked", "blocker", "broken.py", 4),
        ("hook-signature-drift", "major", "engine/trtllm.py", 12),
        ("unguarded-attribute", "minor", "a.py", 7),
        ("unguarded-attribute", "minor", "a.py", 7),
    ]
    assert len({issue["fingerprint"] for issue in report}) == 4
    assert report[0]["description"] == "cannot be checked: expected 'except'"
    assert report[1]["description"] == (
        "MLA101 'TRTLLM.plan' cannot be called as 'Base.plan' can; "
        "engine/base [v2].py:3: 'Base.plan' is declared here"
    )


@pytest.mark.parametrize(("form", "empty"), [("github", ""), ("gitlab", "[]")])
def test_nothing_to_say(form: Any, empty: str) -> None:
    assert render([], form, BASE) == empty


def test_sarif_without_findings_is_a_run_without_results() -> None:
    run = sarif()
    assert (run["results"], run["tool"]["driver"]["rules"]) == ([], [])
