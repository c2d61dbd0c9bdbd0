"""A report on a terminal: colours, places that can be clicked, lines no wider than it is."""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TextIO

from mla_guard.diagnostic import Diagnostic, Place

__all__ = ["PLAIN", "Style", "style_for", "styled"]

_WIDEST = 120
_RESET, _BOLD, _RED, _YELLOW, _CYAN = (f"\x1b[{n}m" for n in (0, 1, 31, 33, 36))
_LINKING_PROGRAMS = ("ghostty", "Hyper", "iTerm.app", "rio", "Tabby", "vscode", "WezTerm")
_LINKING_TERMINALS = ("alacritty", "foot", "xterm-ghostty", "xterm-kitty")
_LINKING_VARIABLES = ("DOMTERM", "KITTY_WINDOW_ID", "KONSOLE_VERSION", "WT_SESSION")
_FIRST_VTE_WITH_LINKS = 5000


class Style(NamedTuple):
    """What a stream shows: colours, links (OSC 8), and lines of at most ``width`` (0: any)."""

    color: bool = False
    links: bool = False
    width: int = 0


PLAIN = Style()


def style_for(stream: TextIO, environment: Mapping[str, str] = os.environ) -> Style:
    """What ``stream`` shows under ``environment``.

    Colours follow ``NO_COLOR`` (https://no-color.org), ``FORCE_COLOR`` and ``TERM`` in the order of
    CPython's own, else whether the stream is a terminal; links and the width need a terminal.
    """
    terminal = stream.isatty() and environment.get("TERM") != "dumb"
    color = terminal
    if environment.get("NO_COLOR"):
        color = False
    elif environment.get("FORCE_COLOR"):
        color = True
    if not terminal:
        return Style(color)
    width = min(shutil.get_terminal_size((_WIDEST, 24)).columns, _WIDEST)
    return Style(color, _shows_links(environment), width)


def _shows_links(environment: Mapping[str, str]) -> bool:
    """Whether the terminal is one that is known to show OSC 8 links, after their own manuals."""
    if "TMUX" in environment or "STY" in environment:
        return False  # what they run in is unknown, and older ones print the link
    vte = environment.get("VTE_VERSION", "")
    return (
        environment.get("TERM_PROGRAM") in _LINKING_PROGRAMS
        or environment.get("TERM") in _LINKING_TERMINALS
        or any(name in environment for name in _LINKING_VARIABLES)
        or (vte.isdecimal() and int(vte) >= _FIRST_VTE_WITH_LINKS)
    )


def styled(finding: Diagnostic, style: Style, base: Path) -> str:
    """``finding.text()`` as ``style`` says; relative paths are below ``base``.

    Without what it adds (escape sequences, line breaks with the indent after them) it is that text.
    """
    if style == PLAIN:
        return finding.text()
    headline, *rest = finding.text().split("\n")
    color = _RED if finding.severity == "error" else _YELLOW
    place = str(finding.place)
    lines = _wrapped(headline, style.width, "    ")
    lines[0] = lines[0].replace(
        f"{place}: {finding.code}",
        f"{_linked(place, finding.place, style, base)}: {_in(_BOLD + color, finding.code, style)}",
        1,
    )
    for number, line in enumerate(rest):
        wrapped = _wrapped(line, style.width, "      ")
        if number < len(finding.related):
            other = finding.related[number].place
            link = _linked(str(other), other, style, base)
            wrapped[0] = wrapped[0].replace(str(other), link, 1)
        elif line.startswith("  hint: "):
            wrapped[0] = wrapped[0].replace("hint:", _in(_CYAN, "hint:", style), 1)
        lines += wrapped
    return "\n".join(lines)


def _wrapped(line: str, width: int, indent: str) -> list[str]:
    """``line`` in lines of at most ``width``, broken at spaces only; a longer word stands alone."""
    if not width or len(line) <= width:
        return [line]
    return textwrap.wrap(
        line,
        width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    )


def _in(color: str, text: str, style: Style) -> str:
    return f"{color}{text}{_RESET}" if style.color else text


def _linked(text: str, place: Place, style: Style, base: Path) -> str:
    """``text`` that leads to ``place`` where links are shown; the fragment is the line."""
    shown = _in(_BOLD, text, style)
    if not style.links:
        return shown
    import socket  # for links alone

    url = Path(base, place.path).as_uri().replace("file://", f"file://{socket.gethostname()}", 1)
    return f"\x1b]8;;{url}#{place.line}\x1b\\{shown}\x1b]8;;\x1b\\"
