"""What other checkers see of the known faults, and how much there is to read for it.

    python -m tests.field.side_by_side --tools DIR [--write]

Runs pylint, mypy, pyright, ruff and ty with the versions, settings and checks of
``side_by_side.toml``, and mla-guard, on the releases of ``cases.toml`` and on the newest ones, and
prints the comparison as Markdown. ``DIR`` is a virtual environment with the tools; it is made if it
is not there. What a tool reported is kept beside the downloaded releases, so that only what changed
is run again. ``--write`` puts the tables into ``README.md`` and ``docs/field-comparison.md``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import mla_guard
from tests.bench.check_release import measure
from tests.field.cases import NEWEST, Case, Finding, cases, package_of, relative
from tests.field.comparison import Newest, Results, judge, long_form, short_form
from tests.field.other_tools import Tool, installed, run, tools
from tests.field.pointing import Tree
from tests.field.scopes import in_folders, read_files
from tests.field.wheels import cache_directory, unpacked

__all__ = ["main", "replaced"]

_ROOT = Path(__file__).parents[2]
_PAGES = {"README.md": short_form, "docs/field-comparison.md": long_form}
_Releases = dict[tuple[str, str], list[Case]]
_GENERATED = re.compile(r"(<!-- side by side -->\n).*?(<!-- end of side by side -->)", re.DOTALL)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--tools", type=Path, required=True, help="a virtual environment")
    parser.add_argument("--write", action="store_true", help="put the tables into the documents")
    arguments = parser.parse_args(argv)
    cache = cache_directory() / "side-by-side"
    programs = installed(arguments.tools.absolute(), tools())
    known = [case for case in cases() if case.release]
    releases: _Releases = {newest: [] for newest in NEWEST.items()}
    for case in known:
        releases.setdefault((case.engine, case.release), []).append(case)
    results = [_ours(releases, cache), *(_other(t, programs, releases, cache) for t in tools())]
    print(long_form(results, known), end="")
    for page, form in _PAGES.items() if arguments.write else ():
        path = _ROOT / page
        text = replaced(path.read_text(encoding="utf-8"), form(results, known), page)
        path.write_text(text, encoding="utf-8")
    return 0


def replaced(text: str, table: str, page: str) -> str:
    """``text`` with ``table`` between its markers; a page without them is an error."""
    new, count = _GENERATED.subn(lambda match: f"{match[1]}\n{table}\n{match[2]}", text)
    if count != 1:
        raise ValueError(f"{page}: expected one pair of 'side by side' markers, found {count}")
    return new


def _other(tool: Tool, programs: Path, releases: _Releases, cache: Path) -> Results:
    results = Results(tool.name, tool.version, tool)
    for (engine, release), known in releases.items():
        root = unpacked(engine, release)
        scope = tool.newest if NEWEST[engine] == release else tool.older
        files = read_files(scope, root, engine, known)
        print(f"{tool.name} {engine} {release}: {len(files)} files", file=sys.stderr)
        outcome = run(tool, programs, root, files, cache)
        judge(results, engine, release, outcome, known, Tree(root, engine))
    return results


def _ours(releases: _Releases, cache: Path) -> Results:
    results = Results("mla-guard", mla_guard.__version__)
    sources = _digest()
    for (engine, release), known in releases.items():
        package = package_of(engine, release)
        kept = cache / f"mla-guard-{package.parent.name}-{sources}.json"
        if not kept.exists():
            print(f"mla-guard {engine} {release}", file=sys.stderr)
            run = measure(package)
            cache.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps([run.seconds, run.findings]), encoding="utf-8")
        seconds, found = json.loads(kept.read_text(encoding="utf-8"))
        findings: list[Finding] = [relative(finding, package) for finding in found]
        for case in known:
            results.found[case.id] = {f["code"]: "names" for f in findings if case.is_shown_by(f)}
        if NEWEST[engine] == release:
            results.newest[engine] = Newest(
                True,
                len(read_files("tree", package.parent, engine, known)),
                seconds,
                Counter(f["code"] for f in findings),
                Counter(f["code"] for f in findings if in_folders(f["path"])),
            )
    return results


def _digest() -> str:
    """Of the linter's own sources: what it found with others is not read again."""
    digest = hashlib.sha256()
    for package in ("lint_rules", "mla_guard"):
        for path in sorted((_ROOT / package).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


if __name__ == "__main__":
    sys.exit(main())
