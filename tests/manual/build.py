"""``python -m tests.manual.build``: the manual as a site, in ``build/manual/site``.

The site has the repository's layout: README, ``docs/`` and the rule pages stand where they stand
here, and so does each file that they link to. A link that works in one works in the other. What is
generated, the command line's reference and the list of rules, is nowhere else.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from lint_rules.pages import file_name, summary
from mla_guard.cli import parser
from mla_guard.diagnostic import RULE_NAMES

__all__ = ["BrokenLink", "build", "command_line", "lay_out", "links"]

ROOT = Path(__file__).parents[2]
WIDTH = 88
_FENCE = re.compile(r"^(?P<fence>`{3,}).*?^(?P=fence)`*[ \t]*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)")
_LINK = re.compile(r"\]\((?!https?:|#)(?P<target>[^)#\s]+)(?:#[^)\s]*)?\)")
_RULES = Path("lint_rules/rules")


class BrokenLink(ValueError):
    """A page links to a file that the repository does not have."""


def links(page: str) -> Iterator[str]:
    """The relative targets of a page's links, code aside and without their anchors."""
    text = _CODE.sub(lambda code: code["ticks"], _FENCE.sub("", page))
    yield from (match["target"] for match in _LINK.finditer(text))


def lay_out(folder: Path, root: Path = ROOT) -> None:
    """Write ``mkdocs.yml`` and the pages of the site of ``root`` into ``folder``.

    Raises :class:`BrokenLink`.
    """
    rules = [_RULES / file_name(code) for code in RULE_NAMES]
    docs = sorted(path.relative_to(root) for path in (root / "docs").glob("*.md"))
    tops = [Path("README.md"), Path("CONTRIBUTING.md"), Path("CHANGELOG.md")]
    pages = folder / "pages"
    for page in (*tops, *docs, *rules):
        _copy(root, page, pages)
        for target in links((root / page).read_text(encoding="utf-8")):
            linked = (root / page.parent / target).resolve()
            if not (linked.is_file() and linked.is_relative_to(root)):
                raise BrokenLink(f"{page}: no file {target} in the repository")
            _copy(root, linked.relative_to(root), pages)
    (pages / "docs" / "cli.md").write_text(command_line(), encoding="utf-8")
    (pages / _RULES / "index.md").write_text(_list_of_rules(), encoding="utf-8")
    navigation = [
        "README.md",
        {"Rules": [path.as_posix() for path in (_RULES / "index.md", *rules)]},
        *(path.as_posix() for path in docs),
        "docs/cli.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
    ]
    settings = {
        "site_name": "mla-guard",
        "docs_dir": "pages",
        "site_dir": "site",
        "use_directory_urls": False,
        "theme": {"font": False},
        "nav": navigation,
    }
    # JSON is YAML
    (folder / "mkdocs.yml").write_text(json.dumps(settings, indent=2), encoding="utf-8")


def _copy(root: Path, path: Path, pages: Path) -> None:
    (pages / path).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(root / path, pages / path)


def command_line() -> str:
    """The reference of the command line: the help of each verb, as it is printed."""
    top = parser()
    sections = ["# Command line", _help(top)]
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                sections += [f"## {verb.prog}", _help(verb)]
    return "\n\n".join(sections) + "\n"


def _help(verb: argparse.ArgumentParser) -> str:
    verb.formatter_class = partial(argparse.HelpFormatter, width=WIDTH)
    return f"```text\n{verb.format_help().rstrip()}\n```"


def _list_of_rules() -> str:
    rows = [
        f"| [{code}]({file_name(code)}) | {name} | {summary(code)} |"
        for code, name in RULE_NAMES.items()
    ]
    return "\n".join(["# Rules", "", "| code | name | |", "| --- | --- | --- |", *rows]) + "\n"


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    """Build the site that is laid out in ``folder``; a link or anchor that leads nowhere fails."""
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    return subprocess.run(
        [*command, "-f", str(folder / "mkdocs.yml")], capture_output=True, text=True, check=False
    )


def main() -> int:
    folder = ROOT / "build" / "manual"
    shutil.rmtree(folder, ignore_errors=True)
    lay_out(folder)
    done = build(folder)
    print(done.stdout, done.stderr, sep="", end="")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
