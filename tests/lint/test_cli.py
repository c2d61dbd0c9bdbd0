"""The command line around the linter: exit codes, streams, formats and error messages."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import lint_rules.run
from lint_rules.config import Config
from lint_rules.finished import Asked
from lint_rules.output import FORMATS
from lint_rules.run import FileFailure, Report
from mla_guard import __version__
from mla_guard.cli import main
from mla_guard.diagnostic import LINT_RULES, Diagnostic, Place, Related

SEARCHED = f"(packages are looked for in {sys.prefix})"

HEADLINE = "a.py:3:5: MLA101 drops 'flag' [hook-signature-drift]\n"


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty engine as current directory; what is found in it is up to ``reports``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)  # a CI system may set it
    (tmp_path / "pyproject.toml").write_text("[tool.mla-guard]\n")
    (tmp_path / "a.py").write_text("")
    return tmp_path


@pytest.fixture
def reports(engine: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Report], list[Config]]:
    """Lets the check give a fixed report; returns the configurations that it is called with."""

    def give(report: Report) -> list[Config]:
        seen: list[Config] = []

        def answer(asked: Asked, **_: object) -> Report:
            assert asked.targets == (engine,)
            seen.append(asked.config)
            return report

        monkeypatch.setattr(lint_rules.run, "answer", answer)
        return seen

    return give


def report(
    *diagnostics: Diagnostic,
    failures: tuple[FileFailure, ...] = (),
    roots: tuple[str, ...] = ("engine.AttentionBackend",),
    unresolved: tuple[Related, ...] = (),
) -> Report:
    return Report(
        diagnostics=diagnostics,
        failures=failures,
        files=4,
        classes=2,
        roots=roots,
        unresolved=unresolved,
    )


def drift(directory: Path) -> Diagnostic:
    return Diagnostic("MLA101", "error", "drops 'flag'", Place(f"{directory}/a.py", 3, 5), "A.hook")


Reports = Callable[[Report], list[Config]]
Capture = pytest.CaptureFixture[str]


def test_clean_is_0(reports: Reports, capsys: Capture) -> None:
    reports(report())
    assert main(["check"]) == 0
    assert capsys.readouterr() == ("No findings in 2 backend classes (4 files).\n", "")


def test_findings_are_1(engine: Path, reports: Reports, capsys: Capture) -> None:
    reports(report(drift(engine)))
    assert main(["check"]) == 1
    summary = "\nFound 1 error in 2 backend classes (4 files). 1 may be repairable with --fix.\n"
    assert capsys.readouterr() == (HEADLINE + summary, "")


def test_exit_zero_forgives_findings_only(engine: Path, reports: Reports) -> None:
    reports(report(drift(engine)))
    assert main(["check", "--exit-zero"]) == 0
    reports(report(failures=(FileFailure(f"{engine}/a.py", 1, "bad"),)))
    assert main(["check", "--exit-zero"]) == 2


def test_concise_and_json_hold_findings_only(
    engine: Path, reports: Reports, capsys: Capture
) -> None:
    reports(report(drift(engine)))
    assert main(["check", "--output-format", "concise"]) == 1
    assert capsys.readouterr() == (HEADLINE, "")
    assert main(["check", "--output-format", "json"]) == 1
    [found] = json.loads(capsys.readouterr().out)
    assert (found["path"], found["code"]) == ("a.py", "MLA101")
    reports(report())
    assert main(["check", "--output-format", "json"]) == 0
    assert capsys.readouterr() == ("[]\n", "")
    assert main(["check", "--output-format", "concise"]) == 0
    assert capsys.readouterr() == ("", "")


def test_every_format_can_be_asked_for(engine: Path, reports: Reports, capsys: Capture) -> None:
    reports(report(drift(engine), failures=(FileFailure(f"{engine}/b.py", 7, "bad"),)))
    for form in FORMATS:
        assert main(["check", "--output-format", form]) == 2
        written = capsys.readouterr()
        assert "drops 'flag'" in written.out
        assert written.err == "b.py:7: cannot be checked: bad\n"
    with pytest.raises(SystemExit):
        main(["check", "--output-format", "xml"])
    offered = ", ".join(f"'{form}'" for form in FORMATS)
    assert f"invalid choice: 'xml' (choose from {offered})" in capsys.readouterr().err


def test_statistics_count_by_rule(engine: Path, reports: Reports, capsys: Capture) -> None:
    other = Diagnostic("MLA202", "warning", "reads 'x'", Place(f"{engine}/a.py", 1), "A.f")
    reports(report(other, *[drift(engine)] * 10))
    assert main(["check", "--statistics"]) == 1
    assert capsys.readouterr().out == (
        "10  MLA101  hook-signature-drift\n"
        " 1  MLA202  unguarded-attribute\n"
        "\n"
        "Found 10 errors, 1 warning in 2 backend classes (4 files). "
        "11 may be repairable with --fix.\n"
    )
    assert main(["check", "--statistics", "--output-format", "json"]) == 1
    assert json.loads(capsys.readouterr().out) == [
        {"code": "MLA101", "name": "hook-signature-drift", "count": 10},
        {"code": "MLA202", "name": "unguarded-attribute", "count": 1},
    ]
    reports(report())
    assert main(["check", "--statistics"]) == 0
    assert capsys.readouterr().out == "No findings in 2 backend classes (4 files).\n"
    assert main(["check", "--statistics", "--output-format", "json"]) == 0
    assert capsys.readouterr().out == "[]\n"


def test_a_report_is_coloured_on_request(
    engine: Path, reports: Reports, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports(report(drift(engine)))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(["check", "--output-format", "concise"]) == 1
    assert capsys.readouterr().out == (
        "\x1b[1ma.py:3:5\x1b[0m: \x1b[1m\x1b[31mMLA101\x1b[0m drops 'flag' [hook-signature-drift]\n"
    )


def test_the_log_of_a_github_step_ends_in_the_summary(
    engine: Path, reports: Reports, capsys: Capture
) -> None:
    reports(report(drift(engine)))
    assert main(["check", "--output-format", "github"]) == 1
    command, empty, summary = capsys.readouterr().out.splitlines()
    assert command.startswith("::error file=a.py,line=3,col=5,")
    assert empty == ""
    assert summary == (
        "Found 1 error in 2 backend classes (4 files). 1 may be repairable with --fix."
    )


def test_a_file_that_cannot_be_parsed_is_named_and_the_rest_reported(
    engine: Path, reports: Reports, capsys: Capture
) -> None:
    failure = FileFailure(f"{engine}/b.py", 7, "expected an indented block")
    reports(report(drift(engine), failures=(failure,)))
    assert main(["check", "--output-format", "concise"]) == 2
    assert capsys.readouterr() == (
        HEADLINE,
        "b.py:7: cannot be checked: expected an indented block\n",
    )


def test_no_base_class_is_2(engine: Path, reports: Reports, capsys: Capture) -> None:
    reports(report(roots=()))
    assert main(["check"]) == 2
    assert capsys.readouterr() == (
        "",
        "mla-guard: error: no base class of attention backends in . (4 files): nothing was "
        "checked. Name it with bases = ['AttentionBackend'] under [tool.mla-guard] of "
        "pyproject.toml, or check more of the engine\n",
    )


def _codes(prefix: str) -> tuple[str, ...]:
    return tuple(code for code in LINT_RULES if code.startswith(prefix))


def test_options_replace_what_the_project_says(engine: Path, reports: Reports) -> None:
    (engine / "pyproject.toml").write_text(
        "[tool.mla-guard]\nselect = ['MLA1']\nignore = ['MLA102']\nbases = ['Base']\n"
    )
    seen = reports(report())
    options = ["--select", "MLA2,MLA301", "--select", "hook-call-mismatch", "--ignore", "MLA201"]
    main(["check", "--min-severity", "error", *options])
    main(["check"])
    assert seen == [
        Config(
            src=(engine,),
            bases=("Base",),
            select=(*_codes("MLA2"), "MLA301", "MLA102"),
            ignore=("MLA201",),
            min_severity="error",
            root=engine,
        ),
        Config(
            src=(engine,),
            bases=("Base",),
            select=_codes("MLA1"),
            ignore=("MLA102",),
            root=engine,
        ),
    ]


def test_unresolved_places_are_listed_on_demand(
    engine: Path, reports: Reports, capsys: Capture
) -> None:
    entry = Related(Place(f"{engine}/a.py", 9), "the base 'Mixin' is not in the project")
    reports(report(unresolved=(entry,)))
    assert main(["check", "--output-format", "concise", "--show-unresolved"]) == 0
    line = "a.py:9: not judged: the base 'Mixin' is not in the project\n"
    assert capsys.readouterr() == ("", line)
    assert main(["check", "--output-format", "concise"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "nosuch/dir"], "no such file or directory: 'nosuch/dir'"),
        (
            ["check", "nosuch"],
            f"no file, directory or installed package is named 'nosuch' {SEARCHED}",
        ),
        (
            ["check", "--select", "MLA1,RUF1"],
            "--select: unknown rule 'RUF1', expected a code, a name or a prefix such as 'MLA2'",
        ),
        (
            ["check", "--ignore", "hook-signature-drit"],
            "--ignore: unknown rule 'hook-signature-drit', expected a code, a name or a prefix "
            "such as 'MLA2' (did you mean 'hook-signature-drift'?)",
        ),
        (
            ["check", "--statistics", "--output-format", "sarif"],
            "--statistics: counts are written as 'text' or 'json', not as 'sarif'",
        ),
        (
            ["rule", "unused-ignores"],
            "rule: unknown rule 'unused-ignores', expected a code, a name or a prefix such as "
            "'MLA2' (did you mean 'unused-ignore'?)",
        ),
    ],
)
def test_what_cannot_be_done_is_2(
    engine: Path, capsys: Capture, arguments: list[str], message: str
) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr() == ("", f"mla-guard: error: {message}\n")


def test_a_bad_setting_is_2(engine: Path, capsys: Capture) -> None:
    (engine / "pyproject.toml").write_text("[tool.mla-guard]\nselct = []\n")
    assert main(["check"]) == 2
    assert capsys.readouterr().err == (
        f"mla-guard: error: {engine}/pyproject.toml: [tool.mla-guard]: unknown key 'selct' "
        "(did you mean 'select'?)\n"
    )


@pytest.mark.parametrize("arguments", [[], ["check", "--output-format", "xml"], ["chek"]])
def test_a_bad_option_is_2(arguments: list[str], capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("usage: mla-guard ")


def test_an_interrupt_is_130_and_says_nothing(
    engine: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def interrupted(*_: object, **__: object) -> Report:
        raise KeyboardInterrupt

    monkeypatch.setattr(lint_rules.run, "answer", interrupted)
    assert main(["check"]) == 130
    assert capsys.readouterr() == ("", "")


def test_progress_is_drawn_on_a_terminal_and_wiped(
    engine: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def answer(*_: object, progress: Callable[[str], None] | None = None, **__: object) -> Report:
        if progress:
            progress("reading 4 files")
        return report()

    monkeypatch.setattr(lint_rules.run, "answer", answer)
    assert main(["check", "--output-format", "concise"]) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(["check", "--output-format", "concise"]) == 0
    assert capsys.readouterr().err == "\r\x1b[Kreading 4 files\r\x1b[K"


def test_rule_prints_the_page(capsys: Capture) -> None:
    assert main(["rule", "MLA001"]) == 0
    by_code = capsys.readouterr().out
    assert by_code.startswith("# MLA001: unused-ignore\n\n## What it does\n")
    assert main(["rule", "unused-ignore"]) == 0
    assert capsys.readouterr().out == by_code


def test_rule_lists_every_rule(capsys: Capture) -> None:
    assert main(["rule"]) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.split(maxsplit=2) == [
        "MLA001",
        "unused-ignore",
        "Reports an ignore comment that suppresses nothing: no finding with that code stands on "
        "its line.",
    ]
    assert second.startswith("MLA002  invalid-ignore  ")


def test_a_reader_that_has_enough_is_no_error() -> None:
    command = [sys.executable, "-m", "mla_guard", "rule", "MLA001"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_version_loads_no_linter() -> None:
    program = """
import sys
from mla_guard.cli import main
try:
    main(["--version"])
except SystemExit as exit:
    print(exit.code, sorted({"lint_rules", "libcst", "msgspec", "torch"} & set(sys.modules)))
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"mla-guard {__version__}\n0 []\n"
