"""The process that checks: one request after the other, until the server is gone."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

from lint_rules.against import check_against
from lint_rules.cache import Cache, cache_folder
from lint_rules.config import Config, ConfigError, load_config
from lint_rules.judge import Judge
from lint_rules.library import Library, TreeChanged
from lint_rules.run import check, read_project
from lint_rules.server.hover import describe
from lint_rules.server.wire import Checked, CheckTree, Described, DescribeHook, receive, send
from lint_rules.target import inside
from lint_rules.tree import list_files

__all__ = ["Worker", "main"]


class Worker:
    """Answers requests about the tree as the last :class:`CheckTree` has it."""

    def __init__(self) -> None:
        self._asked = CheckTree((), {})
        self._judges: dict[str, Judge | None] = {}

    def check(self, asked: CheckTree) -> Checked:
        """Check each folder as ``mla-guard check FOLDER`` does."""
        self._asked = asked
        self._judges.clear()
        found = Checked()
        for folder in asked.folders:
            part = self._check(folder)
            found = Checked(
                tuple(dict.fromkeys((*found.findings, *part.findings))),
                tuple(dict.fromkeys((*found.failures, *part.failures))),
                found.problems + part.problems,
                found.notes + part.notes,
            )
        return found

    def _check(self, folder: str) -> Checked:
        try:
            targets, config, cache = _located(folder)
            run = partial(check, targets, unsaved=self._asked.unsaved, cache=cache)
            if config.baseline is None:
                report = run(config)
            else:
                report = check_against(config.baseline, run, targets, config, write=False)
        except ConfigError as error:
            return Checked(problems=(str(error),))
        except TreeChanged as error:
            return Checked(problems=(f"{error} is edited faster than it can be read",))
        note = f"{folder}: no base class of attention backends: nothing to check"
        return Checked(report.diagnostics, report.failures, notes=() if report.roots else (note,))

    def describe(self, asked: DescribeHook) -> Described:
        """What hovering over a name shows."""
        path = Path(asked.path)
        try:
            for folder in self._asked.folders:
                if inside(path, Path(folder)):
                    judge = self._judge(folder)
                    if judge is not None:
                        return describe(judge, Path(folder), asked)
        except TreeChanged:
            self._judges.clear()  # it was linked from what is no longer there
        return Described()

    def _judge(self, folder: str) -> Judge | None:
        """The linked project around a folder, read when it is first asked for after a check."""
        if folder not in self._judges:
            try:
                targets, config, cache = _located(folder)
                listing = list_files(targets, config)
                with Library(listing, cache, 0, self._asked.unsaved) as library:
                    _, self._judges[folder] = read_project(library, config)
            except ConfigError:
                self._judges[folder] = None  # the check has said so
        return self._judges[folder]


def _located(folder: str) -> tuple[tuple[Path, ...], Config, Cache]:
    targets = (Path(folder),)
    config = load_config(targets)
    return targets, config, Cache(cache_folder(config, targets))


def main() -> None:
    """Serve standard input and output; what anything prints goes to standard error."""
    requests = sys.stdin.buffer
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        worker = Worker()
        while True:
            try:
                asked = receive(requests)
            except EOFError:
                return
            if isinstance(asked, CheckTree):
                send(answers, worker.check(asked))
            elif isinstance(asked, DescribeHook):
                send(answers, worker.describe(asked))


if __name__ == "__main__":
    main()
