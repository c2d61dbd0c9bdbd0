"""``sarif``: SARIF 2.1.0 (OASIS, errata 01), which code scanning and editors read."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from lint_rules.formats.fingerprint import fingerprints
from lint_rules.pages import page, summary
from mla_guard import __version__
from mla_guard.diagnostic import RULE_NAMES, Diagnostic, Place

if TYPE_CHECKING:
    from lint_rules.run import FileFailure

__all__ = ["render"]

_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)

Json = dict[str, object]


def render(findings: Sequence[Diagnostic], failures: Sequence[FileFailure]) -> str:
    """One run: the results, the rules that gave them with their pages, what was not checked."""
    codes = sorted({finding.code for finding in findings})
    driver: Json = {
        "name": "mla-guard",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_rule(code) for code in codes],
    }
    run: Json = {
        "tool": {"driver": driver},
        "invocations": [
            {
                "executionSuccessful": not failures,
                "toolExecutionNotifications": [_notification(failure) for failure in failures],
            }
        ],
        "columnKind": "unicodeCodePoints",
        "results": [
            _result(finding, codes.index(finding.code), digest)
            for finding, digest in zip(findings, fingerprints(findings), strict=True)
        ],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _rule(code: str) -> Json:
    text = page(code)
    return {
        "id": code,
        "name": RULE_NAMES[code],
        "shortDescription": {"text": RULE_NAMES[code].replace("-", " ").capitalize()},
        "fullDescription": {"text": summary(code)},
        "help": {"text": text, "markdown": text},
    }


def _result(finding: Diagnostic, rule_index: int, fingerprint: str) -> Json:
    location = _location(finding.place)
    if finding.symbol:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.symbol}]
    return {
        "ruleId": finding.code,
        "ruleIndex": rule_index,
        "level": finding.severity,
        "message": {"text": _message(finding)},
        "locations": [location],
        "relatedLocations": [
            {"id": number, **_location(related.place), "message": {"text": related.message}}
            for number, related in enumerate(finding.related, 1)
        ],
        # not primaryLocationLineHash: GitHub's upload warns about each that it did not compute
        "partialFingerprints": {"pathCodeSymbol/v1": fingerprint},
    }


def _message(finding: Diagnostic) -> str:
    """The message alone on its first line; GitHub shows a related place only where it is linked."""
    lines = [finding.message]
    for number, related in enumerate(finding.related, 1):
        shown = f"{related.place.path}:{related.place.line}"
        for character in "\\[]":
            shown = shown.replace(character, f"\\{character}")
        lines.append(f"[{shown}]({number}): {related.message}")
    lines += [f"- {reason}" for reason in finding.reasons]
    if finding.hint:
        lines.append(f"hint: {finding.hint}")
    return "\n".join(lines)


def _notification(failure: FileFailure) -> Json:
    return {
        "level": "error",
        "message": {"text": f"cannot be checked: {failure.message}"},
        "locations": [_location(Place(failure.path, failure.line))],
    }


def _location(place: Place) -> Json:
    return {
        "physicalLocation": {
            "artifactLocation": _artifact(place.path),
            "region": {"startLine": place.line, "startColumn": place.column},
        }
    }


def _artifact(path: str) -> Json:
    if os.path.isabs(path):
        return {"uri": Path(path).as_uri()}
    return {"uri": quote(os.fsencode(path)), "uriBaseId": "%SRCROOT%"}
