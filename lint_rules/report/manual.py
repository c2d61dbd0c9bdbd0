"""The page of a rule as blocks: the little Markdown that the pages use."""

from __future__ import annotations

import re

from lint_rules.pages import page, summary
from lint_rules.report.ends import Json
from mla_guard.diagnostic import RULE_NAMES

__all__ = ["blocks", "manual"]


def manual(code: str) -> Json:
    """Name, summary and blocks of the rule's page."""
    return {"name": RULE_NAMES[code], "summary": summary(code), "blocks": blocks(page(code))}


def blocks(text: str) -> list[tuple[str, str]]:
    """Headings (``h1`` to ``h3``), ``code``, list items (``li``) and paragraphs (``p``), in order.

    Lines of a paragraph or item are joined; what is inside of a line stays as it is.
    """
    parts = re.split(r"^```[a-z]*\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    result: list[tuple[str, str]] = []
    for index, part in enumerate(parts):
        result += [("code", part.rstrip("\n"))] if index % 2 else _prose(part)
    return result


def _prose(text: str) -> list[tuple[str, str]]:
    result: list[tuple[str, str]] = []
    for paragraph in re.split(r"\n\s*\n", text):
        for item in re.split(r"\n(?=\* |#)", paragraph.strip("\n")):
            joined = " ".join(item.split())
            heading = re.match(r"(#{1,3}) ", joined)
            if heading:
                result.append((f"h{len(heading[1])}", joined[heading.end() :]))
            elif joined.startswith("* "):
                result.append(("li", joined[2:]))
            elif joined:
                result.append(("p", joined))
    return result
