"""``--print-completion SHELL``: completion of the command line, by shtab."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

__all__ = ["SHELLS", "PrintCompletion"]

SHELLS = ("bash", "zsh", "tcsh", "fish")
_FILES = ("paths", "target", "baseline")
"""Arguments that name files, in any verb."""


class PrintCompletion(argparse.Action):
    """Print the script that a shell reads, and end."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        try:
            import shtab
        except ImportError:
            parser.error(f"{option_string} needs shtab: pip install 'mla-guard[completion]'")
        for action in _actions(parser):
            if action.dest in _FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
        print(shtab.complete(parser, str(values)), end="")
        parser.exit()


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """The actions of the parser and of its verbs."""
    found: list[argparse.Action] = []
    for action in parser._actions:
        found.append(action)
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                found += _actions(verb)
    return found
