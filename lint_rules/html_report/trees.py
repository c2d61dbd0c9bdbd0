"""The trees of a report: which are given, what they are called, and what a check finds in each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from lint_rules.config import load_config
from lint_rules.judge import Judge
from lint_rules.run import Report, judged
from lint_rules.target import resolve_targets

__all__ = ["ReportError", "Tree", "labels", "read_tree"]


class ReportError(Exception):
    """There is nothing to show or nowhere to write it; the message says what was looked for."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A checked tree: below ``tops``, as ``judge`` sees it, with the findings of ``report``."""

    label: str
    tops: tuple[Path, ...]
    judge: Judge
    report: Report

    def relative(self, path: str) -> str:
        """``path`` below the tree that holds it, with slashes; as it is where none does."""
        for top in self.tops:
            folder = top if top.is_dir() else top.parent
            if Path(path).is_relative_to(folder):
                return Path(path).relative_to(folder).as_posix()
        return path


def labels(arguments: Sequence[str]) -> list[str]:
    """A short name for each tree: the part of its path that tells it from the others.

    ``w/0.5.12/sglang`` and ``w/0.5.13/sglang`` are ``0.5.12`` and ``0.5.13``; a tree alone has its
    own name. Raises :class:`ReportError` where two are the same, and ``TargetError``.
    """
    parts = [list(resolve_targets([argument])[0].parts) for argument in arguments]
    for index, one in enumerate(parts):
        if one in parts[:index]:
            raise ReportError(f"{arguments[index]!r} is given twice: each tree is one release")
    if len(parts) == 1:
        return [parts[0][-1]]
    lead = _shared(parts)
    rest = [one[lead:] for one in parts]
    tail = _shared([one[::-1] for one in rest])
    # a tree that is the folder of another has nothing left that would tell it
    return ["/".join(one[: len(one) - tail]) or "." for one in rest]


def _shared(lists: list[list[str]]) -> int:
    """How many items the lists have in common at the start."""
    columns = zip(*lists, strict=False)
    return sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))


def read_tree(argument: str, label: str, progress: Callable[[str], None] | None) -> Tree:
    """Check the tree that ``argument`` names, under the settings that govern it.

    Raises :class:`ReportError` where it holds no base class of backends, and what the linter raises
    for a bad target or setting.
    """
    tops = resolve_targets([argument])
    config = load_config(tops)
    judge, report = judged(tops, config, progress=progress)
    if not report.roots:
        raise ReportError(
            f"no base class of attention backends in {argument!r} ({report.files} files): nothing "
            "was checked. Name it with bases = ['AttentionBackend'] under [tool.mla-guard] of "
            "pyproject.toml, or give more of the engine"
        )
    return Tree(label, tops, judge, report)
