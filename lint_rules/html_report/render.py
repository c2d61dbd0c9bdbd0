"""One HTML page of data, style and script: nothing is fetched, and no data can become markup."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from importlib.resources import files

from lint_rules.html_report.ends import Json

__all__ = ["embedded", "render"]

SCRIPTS = ("dom", "model", "detail", "graph", "matrix", "findings", "history", "rules", "main")
"""The parts of the script, in the order in which they see each other."""


def render(data: Json, title: str) -> str:
    """The page that shows ``data``; pure ASCII, since what is checked need not be UTF-8.

    A policy in the page forbids every request and every script and style but the two of the page.
    """
    style = _part("style.css")
    script = '"use strict";\n(() => {\n' + "\n".join(_part(f"{n}.js") for n in SCRIPTS) + "})();\n"
    policy = "; ".join(
        [
            "default-src 'none'",
            f"style-src {_hash(style)}",
            f"script-src {_hash(script)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    parts = {
        "title": html.escape(title).encode("ascii", "xmlcharrefreplace").decode("ascii"),
        "policy": policy,
        "style": style,
        "data": embedded(data),
        "script": script,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _part("index.html"))


def embedded(data: Json) -> str:
    """``data`` as JSON that no HTML or JavaScript parser takes for anything else.

    ``<``, ``>`` and ``&`` are written as escapes, and so is everything that is not ASCII: neither
    ``</script>``, ``<!--`` nor U+2028 can stand in the result.
    """
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    return re.sub("[<>&]", lambda match: f"\\u{ord(match[0]):04x}", text)


def _part(name: str) -> str:
    return files("lint_rules").joinpath("html_report", "page", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
