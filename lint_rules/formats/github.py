"""``github``: workflow commands, which GitHub Actions shows at the lines that they name.

Syntax and escapes as ``ActionCommand.TryParseV2`` of https://github.com/actions/runner reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mla_guard.diagnostic import Diagnostic, Place

if TYPE_CHECKING:
    from lint_rules.run import FileFailure

__all__ = ["render"]


def render(findings: Sequence[Diagnostic], failures: Sequence[FileFailure]) -> str:
    """A command a line: each file that was not checked, each finding, and its other end."""
    return "\n".join(dict.fromkeys(_commands(findings, failures)))


def _commands(findings: Sequence[Diagnostic], failures: Sequence[FileFailure]) -> Iterator[str]:
    for failure in failures:
        place = Place(failure.path, failure.line)
        yield _command("error", place, "cannot be checked", f"{place}: {failure.message}")
    # GitHub shows the first ten commands of a kind in a step: the other ends of errors come first
    for finding in sorted(findings, key=lambda f: f.severity):
        title = f"{finding.code} {finding.name}"
        yield _command(finding.severity, finding.place, title, finding.text())
        if finding.related:
            # the first is the end that a review may be looking at; the text names all of them
            other = finding.related[0]
            said = f"{other.place}: {other.message}\n{finding.headline()}"
            yield _command("notice", other.place, f"other end of {title}", said)


def _command(kind: str, place: Place, title: str, text: str) -> str:
    where = f"file={_property(place.path)},line={place.line},col={place.column}"
    return f"::{kind} {where},title={_property(f'mla-guard: {title}')}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
