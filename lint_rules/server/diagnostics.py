"""A finding as the protocol has it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lsprotocol import types

from lint_rules import rules
from lint_rules.pages import file_name
from lint_rules.run import FileFailure
from lint_rules.server.texts import Texts
from mla_guard.diagnostic import Diagnostic, Place, Severity

__all__ = ["SOURCE", "failed", "shown"]

SOURCE = "mla-guard"
_SEVERITIES: dict[Severity, types.DiagnosticSeverity] = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
}
_DEAD = {"MLA001", "MLA103"}
"""Findings about text that does nothing: editors fade it."""


def shown(
    finding: Diagnostic, texts: Texts, uri_of: Callable[[str], str], *, related: bool
) -> types.Diagnostic:
    """The diagnostic of a finding; its other ends stand in the message unless ``related``."""
    message = [finding.message, *(f"- {reason}" for reason in finding.reasons)]
    if not related:
        message += [f"{end.place}: {end.message}" for end in finding.related]
    if finding.hint:
        message.append(f"hint: {finding.hint}")
    return types.Diagnostic(
        range=texts.span(finding.place),
        message="\n".join(message),
        severity=_SEVERITIES[finding.severity],
        code=finding.code,
        code_description=types.CodeDescription(_page(finding.code)),
        source=SOURCE,
        tags=[types.DiagnosticTag.Unnecessary] if finding.code in _DEAD else None,
        related_information=[
            types.DiagnosticRelatedInformation(
                types.Location(uri_of(end.place.path), texts.span(end.place)), end.message
            )
            for end in finding.related
        ]
        if related
        else None,
    )


def failed(failure: FileFailure, texts: Texts) -> types.Diagnostic:
    """The diagnostic of a file that the check could not read."""
    return types.Diagnostic(
        range=texts.span(Place(failure.path, failure.line)),
        message=f"cannot be checked: {failure.message}",
        severity=types.DiagnosticSeverity.Error,
        source=SOURCE,
    )


def _page(code: str) -> str:
    """Where the page of a rule stands in this installation."""
    return Path(rules.__file__).with_name(file_name(code)).as_uri()
