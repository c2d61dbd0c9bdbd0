"""The process that checks: one request after the other, until the server is gone."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from lint_rules.against import check_against
from lint_rules.cache import Cache, cache_folder
from lint_rules.config import Config, ConfigError, load_config
from lint_rules.judge import Judge
from lint_rules.library import Library, TreeChanged
from lint_rules.report import Report
from lint_rules.run import checked, read_project
from lint_rules.server.hover import describe
from lint_rules.server.wire import (
    Answer,
    AskRepairs,
    Checked,
    CheckTree,
    Described,
    DescribeHook,
    MakeRepairs,
    Repairable,
    Repaired,
    receive,
    send,
)
from lint_rules.target import inside
from lint_rules.tree import list_files
from mla_guard.diagnostic import REPAIRABLE, Diagnostic

__all__ = ["Worker", "main"]


class Worker:
    """Answers requests about the tree as the last :class:`CheckTree` has it."""

    def __init__(self) -> None:
        self._asked = CheckTree((), {})
        self._judges: dict[str, Judge] = {}
        self._repairable: dict[Diagnostic, bool] = {}

    def answer(self, asked: object) -> Answer:
        """The answer to one request."""
        if isinstance(asked, CheckTree):
            return self.check(asked)
        if isinstance(asked, AskRepairs):
            return self.repairable(asked)
        if isinstance(asked, MakeRepairs):
            return self.repair(asked)
        assert isinstance(asked, DescribeHook)
        return self.describe(asked)

    def check(self, asked: CheckTree) -> Checked:
        """Check each folder as ``mla-guard check FOLDER`` does."""
        self._asked = asked
        self._judges.clear()
        self._repairable.clear()
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

            def run(config: Config) -> Report:
                unsaved = self._asked.unsaved
                report, judge = checked(targets, config, unsaved=unsaved, cache=cache)
                if judge is not None:
                    self._judges[folder] = judge
                return report

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

    def prepare(self) -> None:
        """Have at hand what answers ask that are about the tree."""
        for folder in self._asked.folders:
            with suppress(ConfigError, TreeChanged):  # the check has said so, or the next one will
                self._judge(folder)
        gc.collect()

    def describe(self, asked: DescribeHook) -> Described:
        """What hovering over a name shows."""
        folder = self._folder_of(asked.path)
        if folder is None:
            return Described()
        try:
            return describe(self._judge(folder), Path(folder), asked)
        except ConfigError:
            return Described()  # the check has said so
        except TreeChanged:
            self._judges.clear()  # it was linked from what is no longer there
            return Described()

    def repairable(self, asked: AskRepairs) -> Repairable:
        """Which findings of the last check have a repair; none once the text is another one."""
        if asked.unsaved != self._asked.unsaved:
            return Repairable()
        unknown = [f for f in asked.findings if f.code in REPAIRABLE and f not in self._repairable]
        for folder, findings in self._by_folder(unknown).items():
            from lint_rules.fix import repairable  # loads the parser

            try:
                found = repairable(self._judge(folder), (Path(folder),), findings)
            except ConfigError:
                found = set()
            except TreeChanged:
                self._judges.clear()
                return Repairable()
            self._repairable.update({finding: finding in found for finding in findings})
        return Repairable(frozenset(f for f in asked.findings if self._repairable.get(f)))

    def repair(self, asked: MakeRepairs) -> Repaired:
        """The repairs of findings of the last check; none once the text is another one."""
        if asked.unsaved != self._asked.unsaved:
            return Repaired()
        from lint_rules.fix import mend  # loads the parser
        from lint_rules.fixed import FileChanged
        from lint_rules.repairs.source import Source

        def texts(files: Mapping[str, bytes]) -> dict[str, str]:
            return {path: Source(path, data).text for path, data in files.items()}

        before: dict[str, str] = {}
        after: dict[str, str] = {}
        for folder, findings in self._by_folder(asked.findings).items():
            try:
                targets, config, cache = _located(folder)
                made = mend(targets, config, findings, unsaved=asked.unsaved, cache=cache)
            except (ConfigError, FileChanged):
                return Repaired()  # what was found is of another tree: the next check says so
            before |= texts(made.before)
            after |= texts(made.after)
        return Repaired(before, after)

    def _by_folder(self, findings: Sequence[Diagnostic]) -> dict[str, list[Diagnostic]]:
        found: dict[str, list[Diagnostic]] = {}
        for finding in findings:
            folder = self._folder_of(finding.place.path)
            if folder is not None:
                found.setdefault(folder, []).append(finding)
        return found

    def _folder_of(self, path: str) -> str | None:
        """The folder whose check covers a file."""
        folders = (f for f in self._asked.folders if inside(Path(path), Path(f)))
        return next(folders, None)

    def _judge(self, folder: str) -> Judge:
        """The linked project around a folder: that of the check, read where its report was kept."""
        if folder not in self._judges:
            targets, config, cache = _located(folder)
            listing = list_files(targets, config)
            with Library(listing, cache, 0, self._asked.unsaved) as library:
                _, self._judges[folder] = read_project(library, config)
        return self._judges[folder]


def _located(folder: str) -> tuple[tuple[Path, ...], Config, Cache]:
    targets = (Path(folder),)
    config = load_config(targets)
    return targets, config, Cache(cache_folder(config, targets))


def main() -> None:
    """Serve standard input and output; what anything prints goes to standard error."""
    gc.disable()  # nothing large becomes garbage before a check ends
    requests = sys.stdin.buffer
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        worker = Worker()
        while True:
            try:
                asked = receive(requests)
            except EOFError:
                return
            send(answers, worker.answer(asked))
            if isinstance(asked, (CheckTree, MakeRepairs)):
                worker.prepare()


if __name__ == "__main__":
    main()
