"""The manual page of each rule, as it stands beside the rule in the installed package."""

from __future__ import annotations

import re
from importlib.resources import files

from mla_guard.diagnostic import RULE_NAMES

__all__ = ["PageError", "file_name", "page", "summaries", "summary"]


class PageError(LookupError):
    """No page for what was asked; the message says what was looked for."""


def file_name(code: str) -> str:
    """The name of the file in ``lint_rules/rules`` that holds the page of a rule."""
    return f"{RULE_NAMES[code].replace('-', '_')}.md"


def page(code: str) -> str:
    """The Markdown page of the rule with this code."""
    resource = files("lint_rules").joinpath("rules", file_name(code))
    if not resource.is_file():
        raise PageError(f"{code} has no page: {resource} is missing from this installation")
    return resource.read_text(encoding="utf-8")


def summary(code: str) -> str:
    """The first sentence under *What it does*, as one line."""
    match = re.search(r"^## What it does\n+(.+?)(?:\n\n|\Z)", page(code), re.DOTALL | re.MULTILINE)
    if match is None:
        raise PageError(f"the page of {code} has no section 'What it does'")
    return re.split(r"(?<=\.)\s", " ".join(match[1].split()), maxsplit=1)[0]


def summaries() -> str:
    """Every rule on a line: code, name and summary."""
    width = max(map(len, RULE_NAMES.values()))
    return "\n".join(f"{c}  {name:<{width}}  {summary(c)}" for c, name in RULE_NAMES.items())
