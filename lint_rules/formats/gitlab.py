"""``gitlab``: a Code Quality report, https://docs.gitlab.com/ci/testing/code_quality/."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lint_rules.formats.fingerprint import fingerprints
from mla_guard.diagnostic import Diagnostic, Severity

if TYPE_CHECKING:
    from lint_rules.run import FileFailure

__all__ = ["render"]

_SEVERITIES: dict[Severity, str] = {"error": "major", "warning": "minor"}


def render(findings: Sequence[Diagnostic], failures: Sequence[FileFailure]) -> str:
    """A JSON array with an issue for each finding and each file that was not checked."""
    issues = []
    for failure in failures:
        digest = hashlib.sha256(failure.path.encode(errors="surrogateescape")).hexdigest()
        said = f"cannot be checked: {failure.message}"
        issues.append(
            _issue("cannot-be-checked", said, "blocker", failure.path, failure.line, digest)
        )
    for finding, digest in zip(findings, fingerprints(findings), strict=True):
        described = f"{finding.code} {finding.message}"
        if finding.related:
            other = finding.related[0]
            described += f"; {other.place.path}:{other.place.line}: {other.message}"
        severity = _SEVERITIES[finding.severity]
        place = finding.place
        issues.append(_issue(finding.name, described, severity, place.path, place.line, digest))
    return json.dumps(issues, indent=2)


def _issue(
    check: str, description: str, severity: str, path: str, line: int, fingerprint: str
) -> dict[str, object]:
    return {
        "description": description,
        "check_name": check,
        "fingerprint": fingerprint,
        "severity": severity,
        "location": {"path": path, "lines": {"begin": line}},
    }
