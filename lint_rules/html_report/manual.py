"""The page of a rule as blocks: the little Markdown that the pages use."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lint_rules.html_report.ends import Json
from lint_rules.pages import page, summary
from mla_guard.diagnostic import RULE_NAMES

__all__ = ["blocks", "manual"]


def manual(code: str) -> Json:
    """Name, summary and blocks of the rule's page."""
    return {"name": RULE_NAMES[code], "summary": summary(code), "blocks": blocks(page(code))}


def blocks(text: str) -> list[tuple[str, str]]:
    """Headings (``h1`` to ``h3``), ``code``, lists (``ul``, an item a line) and paragraphs (``p``).

    Lines of a paragraph or item are joined; what is inside of a line stays as it is.
    """
    parts = re.split(r"^```[a-z]*\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    result: list[tuple[str, str]] = []
    for index, part in enumerate(parts):
        result += [("code", part.rstrip("\n"))] if index % 2 else _prose(part)
    return result


def _prose(text: str) -> Iterator[tuple[str, str]]:
    for paragraph in re.split(r"\n\s*\n", text):
        if heading := re.match(r"(#{1,3}) ", paragraph.strip()):
            yield f"h{len(heading[1])}", paragraph.strip()[heading.end() :]
        elif paragraph.strip():
            before, *items = re.split(r"^\* ", paragraph, flags=re.MULTILINE)
            if before.strip():
                yield "p", " ".join(before.split())
            if items:
                yield "ul", "\n".join(" ".join(item.split()) for item in items)
