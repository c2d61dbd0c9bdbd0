"""What a terminal gets, and what a pipe does not."""

from __future__ import annotations

import io
import re
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lint_rules.output import render
from lint_rules.terminal import PLAIN, Style, style_for, styled
from mla_guard.diagnostic import Diagnostic, Place, Related, Severity

BASE = Path("/project")
COLORS = Style(color=True)


def finding(severity: Severity = "error", message: str = "drops 'flag'") -> Diagnostic:
    other = Related(Place("engine/base.py", 3, 5), "'Base.plan' is declared here")
    place = Place("engine/a b.py", 12, 9)
    return Diagnostic("MLA101", severity, message, place, "A.f", (other,), ("a reason",), "accept")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "terminal", "expected"),
    [
        ({}, Style(color=True, width=100), PLAIN),
        ({"NO_COLOR": "1"}, Style(width=100), PLAIN),
        ({"NO_COLOR": ""}, Style(color=True, width=100), PLAIN),
        ({"FORCE_COLOR": "1"}, Style(color=True, width=100), COLORS),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, Style(width=100), PLAIN),
        ({"TERM": "dumb"}, PLAIN, PLAIN),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, COLORS, COLORS),
        ({"TERM_PROGRAM": "vscode"}, Style(color=True, links=True, width=100), PLAIN),
        ({"TERM_PROGRAM": "vscode", "NO_COLOR": "1"}, Style(links=True, width=100), PLAIN),
        ({"TERM": "xterm-kitty"}, Style(color=True, links=True, width=100), PLAIN),
        ({"VTE_VERSION": "7600"}, Style(color=True, links=True, width=100), PLAIN),
        ({"VTE_VERSION": "4602"}, Style(color=True, width=100), PLAIN),
        ({"VTE_VERSION": "7600", "TMUX": "/tmp/x"}, Style(color=True, width=100), PLAIN),
        ({"TERM_PROGRAM": "Apple_Terminal"}, Style(color=True, width=100), PLAIN),
    ],
)
def test_what_a_terminal_and_a_pipe_show(
    environment: dict[str, str], terminal: Style, expected: Style, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert style_for(Terminal(), environment) == terminal
    assert style_for(io.StringIO(), environment) == expected


def test_a_wide_terminal_is_not_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    assert style_for(Terminal(), {}).width == 120


def test_colours_mark_place_code_and_hint() -> None:
    assert styled(finding(), COLORS, BASE) == (
        "\x1b[1mengine/a b.py:12:9\x1b[0m: \x1b[1m\x1b[31mMLA101\x1b[0m drops 'flag' "
        "[hook-signature-drift]\n"
        "  \x1b[1mengine/base.py:3:5\x1b[0m: 'Base.plan' is declared here\n"
        "  - a reason\n"
        "  \x1b[36mhint:\x1b[0m accept"
    )
    assert "\x1b[33mMLA101\x1b[0m" in styled(finding("warning"), COLORS, BASE)


def test_links_lead_to_both_ends() -> None:
    host = socket.gethostname()
    headline, other, *_ = styled(finding(), Style(links=True), BASE).split("\n")
    assert headline == (
        f"\x1b]8;;file://{host}/project/engine/a%20b.py#12\x1b\\engine/a b.py:12:9"
        "\x1b]8;;\x1b\\: MLA101 drops 'flag' [hook-signature-drift]"
    )
    assert other == (
        f"  \x1b]8;;file://{host}/project/engine/base.py#3\x1b\\engine/base.py:3:5"
        "\x1b]8;;\x1b\\: 'Base.plan' is declared here"
    )


def test_long_lines_are_broken_between_words() -> None:
    long = finding(message="takes " + ", ".join(f"parameter_{n}" for n in range(6)))
    assert styled(long, Style(width=60), BASE).split("\n") == [
        "engine/a b.py:12:9: MLA101 takes parameter_0, parameter_1,",
        "    parameter_2, parameter_3, parameter_4, parameter_5",
        "    [hook-signature-drift]",
        "  engine/base.py:3:5: 'Base.plan' is declared here",
        "  - a reason",
        "  hint: accept",
    ]


@given(
    st.text(st.characters(codec="ascii", exclude_categories=["C"])),
    st.builds(Style, st.booleans(), st.booleans(), st.sampled_from([0, 20, 60, 120])),
)
def test_a_style_changes_no_word(message: str, style: Style) -> None:
    said = styled(finding(message=message), style, BASE)
    seen = re.sub(r"\x1b\]8;;.*?\x1b\\|\x1b\[\d+m", "", said)
    assert seen.split() == finding(message=message).text().split()
    if not style.width:
        assert seen == finding(message=message).text()


def test_concise_stays_on_a_line_and_other_formats_are_never_styled() -> None:
    style = Style(color=True, links=True, width=20)
    concise = render([finding(), finding()], "concise", BASE, style=style)
    assert len(concise.split("\n")) == 2
    assert concise.count("\x1b[31m") == 2
    for form in ("json", "github", "gitlab", "junit", "sarif"):
        assert "\x1b" not in render([finding()], form, BASE, style=style)
