"""What an editor can do about a finding: have it ignored where it stands."""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import dataclass

__all__ = ["Insertion", "ignoring"]

_IGNORE = re.compile(r"#\s*mla-guard:\s*ignore\[(?P<codes>[^\]#]*)\]")
_ABOUT_IGNORES = ("MLA001", "MLA002")


@dataclass(frozen=True, slots=True)
class Insertion:
    """Text to put before the 0-based ``column`` of the 1-based ``line``."""

    line: int
    column: int
    text: str


def ignoring(code: str, lines: list[str], line: int) -> Insertion | None:
    """The comment that ignores ``code`` at ``line``, put into an ignore that is there already.

    None for what cannot be ignored: findings about ignores, text that does not tokenize, and a
    code that the comment names already.
    """
    if code in _ABOUT_IGNORES:
        return None
    at = _end_of_line(lines, line)
    if at is None:
        return None
    text = lines[at - 1]
    there = _IGNORE.search(text)
    if there is None:
        kept = text.rstrip()
        return Insertion(at, len(kept), f"  # mla-guard: ignore[{code}] reason")
    if code in re.split(r"\s*,\s*", there["codes"].strip()):
        return None
    return Insertion(at, there.end("codes"), f", {code}")


def _end_of_line(lines: list[str], line: int) -> int | None:
    """The line at whose end a comment covers ``line``: itself, or the last one of its statement.

    A line that ends inside of a string or in a backslash takes no comment.
    """
    source = "\n".join(lines) + "\n"
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type in (tokenize.NEWLINE, tokenize.NL) and token.start[0] >= line:
                if token.start[0] == line or token.type == tokenize.NEWLINE:
                    return token.start[0]
    except (tokenize.TokenError, SyntaxError):
        pass
    return None
