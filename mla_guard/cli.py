"""The command line: verbs and exit codes. The linter is imported by the verbs that need it.

Exit codes: 0 clean, 1 findings, 2 the job could not be done, 130 interrupted.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mla_guard import __version__
from mla_guard.completion import SHELLS, PrintCompletion
from mla_guard.diagnostic import RULE_NAMES
from mla_guard.results import (
    CLEAN,
    FAILED,
    FINDINGS,
    UsageError,
    refuse_nothing,
    write_failures,
    write_report,
    write_unresolved,
)
from mla_guard.server_cli import add_server

if TYPE_CHECKING:
    from lint_rules.cache import Cache
    from lint_rules.config import Config
    from lint_rules.finished import Asked
    from lint_rules.output import Format
    from lint_rules.run import Report

__all__ = ["main", "parser"]

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit code; a bad option exits 2 as argparse does."""
    arguments = parser().parse_args(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a file name need not be UTF-8
    verb: Callable[[argparse.Namespace], int] = arguments.verb
    try:
        code = verb(arguments)
        sys.stdout.flush()
        return code
    except UsageError as error:
        print(f"mla-guard: error: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has what it wanted; the interpreter's last flush must not complain either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINDINGS


def parser() -> argparse.ArgumentParser:
    """The command line's options, verb by verb."""
    top = argparse.ArgumentParser(
        prog="mla-guard",
        description="Checks that the attention backends of an engine keep their hooks' contract.",
    )
    top.add_argument("--version", action="version", version=f"mla-guard {__version__}")
    top.add_argument(
        "--print-completion",
        action=PrintCompletion,
        choices=SHELLS,
        help="print the script that completes this command in a shell",
    )
    verbs = top.add_subparsers(title="verbs", required=True, metavar="VERB")

    check = verbs.add_parser("check", help="report breaches in directories, files or packages")
    check.add_argument(
        "paths", nargs="*", default=["."], metavar="PATH", help="what is reported on (default: .)"
    )
    for option, effect in (("--select", "report only these rules"), ("--ignore", "leave out")):
        check.add_argument(
            option,
            action="append",
            metavar="CODES",
            help=f"{effect}: codes, names or prefixes such as MLA2, separated by commas",
        )
    check.add_argument("--min-severity", choices=["error", "warning"])
    check.add_argument(
        "--output-format",
        choices=["text", "concise", "json", "github", "gitlab", "junit", "sarif"],
        default="text",
        help="for a person (text, concise), a program (json) or a CI system",
    )
    check.add_argument(
        "--statistics", action="store_true", help="count the findings of each rule instead"
    )
    check.add_argument(
        "--show-unresolved", action="store_true", help="list the places that cannot be judged"
    )
    check.add_argument(
        "--baseline", metavar="FILE", help="hold back the findings that this file lists"
    )
    check.add_argument(
        "--write-baseline",
        action="store_true",
        help="list what is found in the baseline; where it exists, only take lines away",
    )
    check.add_argument(
        "--exit-zero", action="store_true", help="exit 0 although there are findings"
    )
    repair = check.add_mutually_exclusive_group()
    repair.add_argument("--fix", action="store_true", help="repair what can be, report the rest")
    repair.add_argument("--diff", action="store_true", help="show what --fix would change")
    check.add_argument(
        "--no-cache", action="store_true", help="find everything out anew, and keep nothing"
    )
    check.add_argument(
        "--changed-since",
        metavar="REV",
        help="report only what the files that differ from this git revision cause",
    )
    check.add_argument("--watch", action="store_true", help="check again whenever a file changes")
    check.set_defaults(verb=_check)

    rule = verbs.add_parser("rule", help="explain one rule, or list them")
    rule.add_argument("code", nargs="?", metavar="CODE")
    rule.set_defaults(verb=_rule)

    contract = verbs.add_parser(
        "contract", help="show the hooks of a class as the linter sees them"
    )
    contract.add_argument("target", nargs="?", metavar="CLASS | PATH")
    contract.add_argument("--matrix", action="store_true", help="who implements which hook")
    contract.set_defaults(verb=_contract)

    cache = verbs.add_parser("cache", help="name or clear the cache of a project")
    cache.add_argument("action", choices=["dir", "clear"])
    cache.add_argument("paths", nargs="*", default=["."], metavar="PATH")
    cache.set_defaults(verb=_cache)

    report = verbs.add_parser(
        "report", help="write a page with hierarchy, matrix, findings and their history"
    )
    report.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a tree each, the oldest release first; hierarchy and matrix are of the last",
    )
    report.add_argument(
        "--html", required=True, metavar="FILE", help="what is written; - is stdout"
    )
    report.set_defaults(verb=_report)

    demo = verbs.add_parser("demo", help="check a small bundled engine with one of each fault")
    demo.set_defaults(verb=_demo)

    verify = verbs.add_parser("verify", help="import classes and verify their contracts")
    verify.add_argument("targets", nargs="+", metavar="MODULE:CLASS")
    verify.set_defaults(verb=_verify)

    add_server(verbs)
    return top


def _check(arguments: argparse.Namespace) -> int:
    import gc

    form: Format = arguments.output_format
    if arguments.statistics and form not in ("text", "json"):
        raise UsageError(f"--statistics: counts are written as 'text' or 'json', not as {form!r}")
    if arguments.fix or arguments.diff:
        return _repair(arguments)
    gc.disable()  # nothing large becomes garbage before a check ends
    if arguments.watch:
        return _watch(arguments)
    return _check_once(arguments, cached=not arguments.no_cache)


def _check_once(arguments: argparse.Namespace, *, cached: bool) -> int:
    targets, config = _configured(arguments)
    changed = _changed(arguments.changed_since, targets)
    run = partial(_run, targets, changed=changed, cached=cached)
    if config.baseline is not None:
        asked = targets if changed is None else changed
        write: bool = arguments.write_baseline
        report = _run_against(config.baseline, run, asked, config, write=write)
    elif arguments.write_baseline:
        raise UsageError(
            "--write-baseline: no file is named: add --baseline FILE, or baseline = 'FILE' under "
            "[tool.mla-guard] of pyproject.toml"
        )
    else:
        report = run(config)
    code = write_report(report, config, arguments.output_format, counts=arguments.statistics)
    if arguments.show_unresolved:
        write_unresolved(report)
    return CLEAN if code == FINDINGS and arguments.exit_zero else code


def _repair(arguments: argparse.Namespace) -> int:
    """Exit 1 where findings remain (``--fix``) or something would change (``--diff``)."""
    from lint_rules.cache import Cache, cache_folder
    from lint_rules.config import ConfigError
    from lint_rules.fix import fix
    from lint_rules.fixed import FileChanged, diff, said, write

    _refuse_beside_repairs(arguments)
    targets, config = _configured(arguments)
    changed = _changed(arguments.changed_since, targets)
    cache = None if arguments.no_cache else Cache(cache_folder(config, targets))
    try:
        with _progress() as progress:
            fixed = fix(targets, config, changed=changed, cache=cache, progress=progress)
        if arguments.fix:
            write(fixed)
    except (ConfigError, FileChanged, OSError) as error:
        raise UsageError(str(error)) from error
    if arguments.diff:
        write_failures(fixed.report.failures)
        refuse_nothing(fixed.report, config)
        print(diff(fixed, Path.cwd()), end="")
        print(said(fixed, "Would repair"), file=sys.stderr)
        code = FAILED if fixed.report.failures else FINDINGS if fixed.after else CLEAN
    else:
        code = write_report(
            fixed.report, config, arguments.output_format, counts=arguments.statistics
        )
        print(said(fixed, "Repaired"), file=sys.stderr)
    if arguments.show_unresolved:
        write_unresolved(fixed.report)
    return CLEAN if code == FINDINGS and arguments.exit_zero else code


def _refuse_beside_repairs(arguments: argparse.Namespace) -> None:
    """Refuse the options that mean nothing beside ``--fix`` or ``--diff``."""
    option = "--fix" if arguments.fix else "--diff"
    refused = {
        "--watch": (arguments.watch, "repairs are made once"),
        "--write-baseline": (arguments.write_baseline, "repair first, then write the baseline"),
    }
    if arguments.diff:
        why = "a unified diff is printed, and no findings"
        refused["--output-format"] = arguments.output_format != "text", why
        refused["--statistics"] = arguments.statistics, why
    for other, (given, why) in refused.items():
        if given:
            raise UsageError(f"{other}: not allowed with {option}: {why}")


def _watch(arguments: argparse.Namespace) -> int:
    import gc

    from lint_rules.tree import list_files
    from lint_rules.watch import watch

    def state() -> object:
        try:
            targets, config = _configured(arguments)
        except UsageError as error:
            return str(error)
        return config, list_files(targets, config)

    def check() -> None:
        if sys.stdout.isatty():
            print("\x1b[2J\x1b[H", end="")
        try:
            _check_once(arguments, cached=not arguments.no_cache)
        except UsageError as error:
            print(f"mla-guard: error: {error}", file=sys.stderr)
        sys.stdout.flush()
        gc.collect()

    watch(check, state)
    return CLEAN


def _changed(revision: str | None, targets: Sequence[Path]) -> tuple[Path, ...] | None:
    """The files that ``--changed-since`` names, inside of the targets."""
    if revision is None:
        return None
    from lint_rules.changed import GitError, changed_since
    from lint_rules.target import inside

    found: dict[Path, None] = {}
    try:
        for target in targets:
            folder = target if target.is_dir() else target.parent
            real = Path(os.path.realpath(target))
            files = changed_since(revision, folder)
            found.update(dict.fromkeys(f for f in files if inside(Path(os.path.realpath(f)), real)))
    except GitError as error:
        raise UsageError(str(error)) from error
    return tuple(found)


def _located(paths: Sequence[str]) -> tuple[tuple[Path, ...], Config]:
    """The targets that ``paths`` name, and the configuration that governs them."""
    from lint_rules.config import ConfigError, load_config
    from lint_rules.target import TargetError, resolve_targets

    try:
        targets = resolve_targets(paths)
        return targets, load_config(targets)
    except (ConfigError, TargetError) as error:
        raise UsageError(str(error)) from error


def _configured(arguments: argparse.Namespace) -> tuple[tuple[Path, ...], Config]:
    """The targets of a check and its configuration, the options laid over it."""
    from dataclasses import replace

    targets, config = _located(arguments.paths)
    if arguments.select is not None:
        config = replace(config, select=_codes(arguments.select, "--select"))
    if arguments.ignore is not None:
        config = replace(config, ignore=_codes(arguments.ignore, "--ignore"))
    if arguments.min_severity is not None:
        config = replace(config, min_severity=arguments.min_severity)
    if arguments.baseline is not None:
        config = replace(config, baseline=Path(os.path.abspath(arguments.baseline)))
    return targets, config


def _codes(values: Sequence[str], option: str) -> tuple[str, ...]:
    from lint_rules.config import ConfigError, expand_codes

    names = [name.strip() for value in values for name in value.split(",")]
    try:
        return expand_codes(names, option)
    except ConfigError as error:
        raise UsageError(str(error)) from error


def _run(
    targets: Sequence[Path],
    config: Config,
    changed: Collection[Path] | None = None,
    *,
    cached: bool,
) -> Report:
    from lint_rules.cache import Cache, cache_folder
    from lint_rules.finished import Asked, recall

    cache = Cache(cache_folder(config, targets)) if cached else None
    asked = Asked(targets, config, changed)
    report = recall(cache, asked.key()) if cache is not None else None
    return report if report is not None else _run_anew(asked, cache)


def _run_anew(asked: Asked, cache: Cache | None) -> Report:
    from lint_rules.config import ConfigError
    from lint_rules.run import TreeChanged, answer

    try:
        with _progress() as progress:
            return answer(asked, progress=progress, cache=cache)
    except ConfigError as error:
        raise UsageError(str(error)) from error
    except TreeChanged as error:
        raise UsageError(f"{error} is edited faster than it can be read") from error


@contextmanager
def _progress() -> Iterator[Callable[[str], None] | None]:
    """What shows how far a check is, on a terminal: one line, gone at the end."""

    def progress(message: str) -> None:
        sys.stderr.write(f"\r\x1b[K{message}")
        sys.stderr.flush()

    shown = sys.stderr.isatty()
    try:
        yield progress if shown else None
    finally:
        if shown:
            progress("")


def _run_against(
    baseline: Path,
    run: Callable[[Config], Report],
    asked: Collection[Path],
    config: Config,
    *,
    write: bool,
) -> Report:
    from lint_rules.against import check_against
    from lint_rules.config import ConfigError

    try:
        return check_against(baseline, run, tuple(asked), config, write=write)
    except ConfigError as error:
        raise UsageError(str(error)) from error


def _rule(arguments: argparse.Namespace) -> int:
    from lint_rules.config import ConfigError, expand_codes
    from lint_rules.pages import PageError, page, summaries

    try:
        if arguments.code is None:
            print(summaries())
        else:
            codes = expand_codes([arguments.code], "rule", RULE_NAMES)
            print("\n".join(page(code) for code in codes), end="")
    except (ConfigError, PageError) as error:
        raise UsageError(str(error)) from error
    return CLEAN


def _contract(arguments: argparse.Namespace) -> int:
    from lint_rules.config import ConfigError
    from lint_rules.contracts import ContractError, main_contract

    is_path = arguments.target is not None and Path(arguments.target).exists()
    _, config = _located([arguments.target if is_path else "."])
    try:
        print(main_contract(arguments.target, arguments.matrix, config))
    except (ConfigError, ContractError) as error:
        raise UsageError(str(error)) from error
    return CLEAN


def _cache(arguments: argparse.Namespace) -> int:
    from lint_rules.cache import cache_folder, clear

    targets, config = _located(arguments.paths)
    folder = cache_folder(config, targets)
    if arguments.action == "dir":
        print(folder)
        return CLEAN
    try:
        removed = clear(folder)
    except OSError as error:
        raise UsageError(f"{folder} cannot be cleared: {error.strerror}") from error
    print(f"Removed {removed} files from {folder}.")
    return CLEAN


def _report(arguments: argparse.Namespace) -> int:
    from lint_rules.config import ConfigError
    from lint_rules.html_report.command import main_report
    from lint_rules.html_report.file import replace, writable
    from lint_rules.html_report.trees import ReportError
    from lint_rules.target import TargetError

    try:
        target = None if arguments.html == "-" else writable(arguments.html)
        with _progress() as progress:
            page, failures = main_report(arguments.paths, progress)
        if target is None:
            sys.stdout.write(page)
        else:
            replace(target, page)
    except (ConfigError, ReportError, TargetError) as error:
        raise UsageError(str(error)) from error
    write_failures(failures)
    return FAILED if failures else CLEAN


def _demo(arguments: argparse.Namespace) -> int:
    from lint_rules.config import Config
    from lint_rules.demo import DESCRIPTION, ENGINE

    print(DESCRIPTION, end="\n\n")
    config = Config(src=(ENGINE,))
    code = write_report(_run([ENGINE], config, cached=False), config, "text")
    return CLEAN if code == FINDINGS else FAILED


def _verify(arguments: argparse.Namespace) -> int:
    from mla_guard.verify_cli import main_verify

    return main_verify(arguments.targets)
