"""``# mla-guard: ignore[CODE, CODE] reason``: findings that were looked at and are meant.

An ignore covers its own line. On the first or the last line of a statement (the header of a
compound one), where formatters may move it, it covers all of the statement's lines.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from lint_rules.nearest import nearest
from mla_guard.diagnostic import LINT_RULES, Diagnostic, Place

__all__ = ["MARKER", "Ignore", "apply_ignores", "read_ignores"]

MARKER = b"mla-guard:"
"""Files without these bytes hold no ignore and are not tokenized."""

UNUSED = "MLA001"
INVALID = "MLA002"
_EXAMPLE = "ignore[MLA101] reason"
_COMMENT = re.compile(r"#\s*mla-guard:\s*(?P<body>[^#]*)")
_BODY = re.compile(r"ignore\[(?P<codes>[^\]]*)\]")
_LAYOUT = (tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)


@dataclass(slots=True)
class Ignore:
    """One comment: where it stands, the codes that it names, and the lines that it covers."""

    place: Place
    codes: tuple[str, ...]
    covers: range
    used: set[str] = field(default_factory=set)


def apply_ignores(
    findings: Iterable[Diagnostic],
    sources: Iterable[tuple[str, bytes]],
    selects: Callable[[str], bool] = lambda code: True,
) -> list[Diagnostic]:
    """``findings`` less the ignored ones, and a finding for each ignore that is unused or invalid.

    ``sources`` holds path and content of every file that is reported on, the paths as in
    ``findings``, which must be complete: filter them by severity afterwards. An unused code is
    only reported where ``selects`` says that its rule ran.
    """
    ignores: dict[str, list[Ignore]] = {}
    said: list[Diagnostic] = []
    for path, source in sources:
        if MARKER in source:
            ignores[path], invalid = read_ignores(path, source)
            said += invalid
    kept = [f for f in findings if not _ignored(f, ignores.get(f.place.path, ()))]
    said += [
        _warning(UNUSED, f"nothing to ignore here: {code} is not reported", ignore.place)
        for found in ignores.values()
        for ignore in found
        for code in ignore.codes
        if code not in ignore.used and selects(code)
    ]
    return kept + [d for d in said if selects(d.code)]


def _ignored(finding: Diagnostic, ignores: Iterable[Ignore]) -> bool:
    hit = False
    for ignore in ignores:
        if finding.code in ignore.codes and finding.place.line in ignore.covers:
            ignore.used.add(finding.code)
            hit = True
    return hit


def read_ignores(path: str, source: bytes) -> tuple[list[Ignore], list[Diagnostic]]:
    """The ignores of one file, and a finding for each one that cannot be used.

    In a file that does not tokenize, those before the error count.
    """
    ignores: list[Ignore] = []
    invalid: list[Diagnostic] = []
    for (line, column), comment, covers in _comments(source):
        for match in _COMMENT.finditer(comment):
            place = Place(path, line, column + match.start() + 1)
            codes, errors = _parse(match["body"], place)
            invalid += errors
            if codes:
                ignores.append(Ignore(place, codes, covers))
    return ignores, invalid


def _parse(body: str, place: Place) -> tuple[tuple[str, ...], list[Diagnostic]]:
    """The usable codes of one comment, and what is wrong with the rest of it."""
    match = _BODY.match(body)
    if match is None or not match["codes"].strip():
        written = body.strip() or "nothing"
        message = f"an ignore names its codes, as in '{_EXAMPLE}', not {written!r}"
        return (), [_warning(INVALID, message, place)]
    codes: list[str] = []
    errors: list[Diagnostic] = []
    for code in (part.strip() for part in match["codes"].split(",")):
        if code in (UNUSED, INVALID):
            message = f"{code} is about the ignores themselves: leave it out with --ignore {code}"
            errors.append(_warning(INVALID, message, place))
        elif code not in LINT_RULES:
            errors.append(_warning(INVALID, f"unknown code {code!r}{_nearest(code)}", place))
        elif code in codes:
            errors.append(_warning(INVALID, f"names {code} twice", place))
        else:
            codes.append(code)
    return tuple(codes), errors


def _nearest(written: str) -> str:
    by_name = {name: code for code, name in LINT_RULES.items()}
    close = nearest(written, [*LINT_RULES, *by_name])
    return f" (did you mean {by_name.get(close, close)}?)" if close else ""


def _warning(code: str, message: str, place: Place) -> Diagnostic:
    return Diagnostic(code, "warning", message, place, symbol="")


def _comments(source: bytes) -> Iterator[tuple[tuple[int, int], str, range]]:
    """Line and column, text and covered lines of each comment that may hold an ignore."""
    waiting: list[tokenize.TokenInfo] = []
    first = 0
    try:
        for token in tokenize.tokenize(io.BytesIO(source).readline):
            if token.type == tokenize.COMMENT:
                if MARKER.decode() in token.string:
                    waiting.append(token)
            elif token.type == tokenize.NEWLINE:
                last = token.start[0]
                for comment in waiting:
                    at = comment.start[0]
                    covers = range(first, last + 1) if at in (first, last) else range(at, at + 1)
                    yield comment.start, comment.string, covers
                waiting.clear()
                first = 0
            elif token.type not in _LAYOUT and not first:
                first = token.start[0]
    except (tokenize.TokenError, SyntaxError):
        pass
    for comment in waiting:
        at = comment.start[0]
        yield comment.start, comment.string, range(at, at + 1)
