"""Rule pages as tests: the fenced blocks of a page, and the findings that they announce.

An expectation is a trailing comment on the offending line, ``# error: MLA101 message``; several on
one line are separated by ``; error: ...``. A block may hold several files, each after a line
``# file: engine/backend.py``, and a baseline, after ``# file: mla-guard-baseline.txt``.
"""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from lint_rules.against import check_against
from lint_rules.config import Config
from lint_rules.run import check
from mla_guard import HookContractError
from mla_guard.diagnostic import Diagnostic

SECTIONS = (
    "What it does",
    "Why is this bad?",
    "Example",
    "Use instead",
    "Not reported",
    "Limits",
    "Other tools",
)
ANNOUNCING = "Example"
REPAIR = "Repair"
SILENT = ("Use instead", "Not reported")
DEFAULT_FILE = "engine.py"

_HEADING = re.compile(r"^## (.+)$")
BASELINE = "mla-guard-baseline.txt"

_FILE = re.compile(r"^# file: (\S+\.py|" + re.escape(BASELINE) + ")$")
_EXPECTATION = re.compile(r"#\s*((?:error|warning): MLA\d{3} .*)$")
_SEPARATOR = re.compile(r";\s+(?=(?:error|warning): MLA\d{3} )")
_ONE = re.compile(r"(?P<severity>error|warning): (?P<code>MLA\d{3}) (?P<message>.+)")


class Expected(NamedTuple):
    """One finding, as far as a page announces it."""

    path: str
    line: int
    severity: str
    code: str
    message: str


@dataclass(frozen=True)
class Block:
    """One fenced block: the section and line of the page that it stands at, and its files."""

    section: str
    line: int
    files: dict[str, str]

    def expected(self) -> list[Expected]:
        """The announced findings, sorted."""
        return sorted(e for path, text in self.files.items() for e in expectations(path, text))


def sections(page: str) -> list[str]:
    """The second-level headings of a page, those inside fences aside."""
    return [
        match[1] for _, line, fenced in _lines(page) if not fenced and (match := _heading(line))
    ]


def blocks(page: str) -> list[Block]:
    """The ``python`` blocks of the sections that are executed."""
    found: list[Block] = []
    section, start = "", 0
    body: list[str] = []
    for number, line, fenced in _lines(page):
        if not fenced and (match := _heading(line)):
            section = match[1]
        elif line.startswith("```") and not fenced:
            start, body = (number, []) if line == "```python" else (0, [])
        elif line == "```":
            if start and section in (ANNOUNCING, REPAIR, *SILENT):
                found.append(Block(section, start, _files(body, start)))
        elif fenced:
            body.append(line)
    return found


def repair_shown(page: str) -> str:
    """What the section *Repair* shows as the difference that the repair makes."""
    _, _, rest = page.partition(f"\n## {REPAIR}\n")
    _, _, rest = rest.partition("\n```diff\n")
    return rest.partition("```")[0]


def plain(text: str) -> str:
    """A file of a block without the expectations."""
    return "".join(
        line[: match.start()].rstrip() + "\n" if (match := _EXPECTATION.search(line)) else line
        for line in text.splitlines(keepends=True)
    )


def _heading(line: str) -> re.Match[str] | None:
    return _HEADING.match(line)


def _lines(page: str) -> Iterator[tuple[int, str, bool]]:
    """Each line with its number, and whether it lies inside a fence or closes one."""
    fenced = False
    for number, line in enumerate(page.splitlines(), start=1):
        yield number, line, fenced
        if line.startswith("```"):
            fenced = not fenced
    if fenced:
        raise ValueError("the last fence is not closed")


def _files(body: list[str], start: int) -> dict[str, str]:
    files: dict[str, list[str]] = {}
    current = None
    for number, line in enumerate(body, start=start + 1):
        match = _FILE.match(line)
        if match and files and current is None:
            raise ValueError(f"line {number}: the block's first line names no file")
        if match and match[1] in files:
            raise ValueError(f"line {number}: {match[1]} stands twice in one block")
        if match:
            current = match[1]
            files[current] = []
        else:
            files.setdefault(current or DEFAULT_FILE, []).append(line)
    return {path: "\n".join(lines) + "\n" for path, lines in files.items()}


def expectations(path: str, text: str) -> Iterator[Expected]:
    """The findings that the trailing comments of one file announce."""
    for number, line in enumerate(text.splitlines(), start=1):
        if comment := _EXPECTATION.search(line):
            for part in _SEPARATOR.split(comment[1].strip()):
                if (match := _ONE.fullmatch(part.strip())) is None:
                    raise ValueError(f"{path}:{number}: not an expectation: {part!r}")
                yield Expected(path, number, match["severity"], match["code"], match["message"])


def write(files: dict[str, str], directory: Path) -> None:
    """Lay the files of a block out below ``directory``."""
    for path, text in files.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def findings(directory: Path) -> list[Expected]:
    """What the linter reports on ``directory``, sorted, in the form in which pages announce it.

    A block without a base class, or that does not parse, is an error: it would show nothing.
    """
    config = Config(src=(directory,), root=directory)
    run = partial(check, [directory])
    baseline = directory / BASELINE
    if baseline.exists():
        report = check_against(baseline, run, [directory], config, write=False)
    else:
        report = run(config)
    if report.failures:
        raise ValueError(f"cannot be checked: {report.failures}")
    if not report.roots:
        raise ValueError("no base class in this block: nothing was checked")
    return sorted(_as_expected(report.diagnostics, directory))


def refusals(directory: Path) -> list[Expected]:
    """What the guard refuses while the block runs, in the same form."""
    path = directory / DEFAULT_FILE
    try:
        runpy.run_path(str(path), run_name=f"page_{directory.name}")
    except HookContractError as error:
        return sorted(_as_expected(error.diagnostics, directory))
    return []


def _as_expected(diagnostics: Iterable[Diagnostic], directory: Path) -> Iterator[Expected]:
    for d in diagnostics:
        path = directory.joinpath(d.place.path).relative_to(directory).as_posix()
        yield Expected(path, d.place.line, d.severity, d.code, d.message)
