"""``mla-guard server``."""

from __future__ import annotations

import argparse
import sys

__all__ = ["add_server", "main_server"]


def add_server(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command line's."""
    server = verbs.add_parser(
        "server", help="show findings in an editor: a language server on standard input and output"
    )
    server.set_defaults(verb=main_server)


def main_server(arguments: argparse.Namespace) -> int:
    """Serve until the editor ends the session; 2 where pygls is not installed."""
    try:
        from lint_rules.server.serve import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        print(
            "mla-guard: error: the language server needs pygls: install mla-guard[server]",
            file=sys.stderr,
        )
        return 2
    serve()
    return 0
