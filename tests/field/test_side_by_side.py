"""What other checkers write is read right, and counts only where it points at the fault."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.field.cases import Case, cases
from tests.field.comparison import Newest, Results, judge, short_form
from tests.field.other_tools import Outcome, Tool, families, run, tools
from tests.field.pointing import Pointing, Report, Tree, pointing
from tests.field.scopes import read_files
from tests.field.side_by_side import replaced

ENGINE = {
    "engine/base.py": """\
class Backend:
    def plan(self, batch, ragged=False):
        raise NotImplementedError
""",
    "engine/attention/wrapper.py": """\
from engine.base import Backend


class Wrapper(Backend):
    def __init__(self, inner):
        self.inner = inner

    @property
    def plan(
        self,
        batch,
    ):
        other = batch.seqs
        return self.inner.plan(batch, other)

    def reset(self):
        return self.flag


class Unrelated:
    pass
""",
    "engine/caller.py": """\
def run(backend, batch):
    return backend.plan(batch, ragged=True)
""",
    "engine/tests/test_caller.py": "plan = 1\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    for path, text in ENGINE.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    return Tree(tmp_path, "engine")


def fault(symbol: str, *words: str, family: str = "wrapper") -> Case:
    path = "engine/attention/wrapper.py"
    return Case("X1", "engine", "static", path, family, words, "why", "1.0", symbol)


def report(path: str, line: int, message: str = "m", end: int = 0, check: str = "c") -> Report:
    return Report(f"engine/{path}", line, end or line, check, message)


WRAPPER = "attention/wrapper.py"


@pytest.mark.parametrize(
    ("case", "given", "kind", "expected"),
    [
        pytest.param(fault("Wrapper.plan", "ragged"), report(WRAPPER, 9), "override", "names",
                     id="at the head of the method, whatever it says"),
        pytest.param(fault("Wrapper.plan", "ragged"), report(WRAPPER, 12), "override", "names",
                     id="the head has several lines"),
        pytest.param(fault("Wrapper.plan", "ragged"), report(WRAPPER, 13), "call", "stands there",
                     id="in the method, about something else"),
        pytest.param(fault("Wrapper.plan", "ragged"), report(WRAPPER, 13, "no 'ragged'"), "call",
                     "names", id="in the method, in the message"),
        pytest.param(fault("Wrapper.plan", "other"), report(WRAPPER, 14), "call", "names",
                     id="in the method, in the line"),
        pytest.param(fault("Wrapper.plan", "oth"), report(WRAPPER, 14), "call", "stands there",
                     id="a word is a whole word"),
        pytest.param(fault("Wrapper", "flag"), report(WRAPPER, 4, "abstract"), "abstract",
                     "stands there", id="at the head of a class, about something else"),
        pytest.param(fault("Wrapper", "flag"), report(WRAPPER, 17), "attribute", "names",
                     id="in the class"),
        pytest.param(fault("Wrapper", "flag"), report(WRAPPER, 20, "flag"), "attribute", None,
                     id="in another class"),
        pytest.param(fault("Wrapper"), report(WRAPPER, 13), "attribute", "names",
                     id="a fault without words"),
        pytest.param(fault("Wrapper.plan", "ragged"), report("caller.py", 2, "for Wrapper"), "call",
                     "names", id="a caller, who names the class"),
        pytest.param(fault("Wrapper.plan", "ragged"), report("caller.py", 2, "for Backend"), "call",
                     "names", id="a caller, who names the base"),
        pytest.param(fault("Wrapper.plan", "ragged"), report("caller.py", 2, "for Other"), "call",
                     None, id="a caller of another class"),
        pytest.param(fault("Wrapper.plan", "ragged"), report("caller.py", 2, "for Backend"),
                     "override", None, id="a caller is no override"),
        pytest.param(fault("Wrapper.plan", "ragged", family="initialization"),
                     report("caller.py", 2, "for Backend"), "attribute", None,
                     id="what a constructor leaves out is no matter of its base"),
        pytest.param(fault("", "other"), report(WRAPPER, 14), "call", "names",
                     id="a fault of a file"),
        pytest.param(fault("", "ragged"), report(WRAPPER, 14), "call", None,
                     id="a fault of a file, elsewhere in it"),
        pytest.param(fault("Wrap", "flag"), report(WRAPPER, 17), "attribute", "names",
                     id="the beginning of a name"),
    ],
)  # fmt: skip
def test_what_points_at_a_fault(
    tree: Tree, case: Case, given: Report, kind: str, expected: Pointing | None
) -> None:
    assert pointing(case, given, kind, tree) == expected


def test_a_report_on_a_definition_does_not_say_what_stands_in_it(tree: Tree) -> None:
    whole = report(WRAPPER, 16, end=17)
    assert pointing(fault("Wrapper", "flag"), whole, "abstract", tree) == "stands there"


def test_a_definition_that_is_not_there_is_an_error(tree: Tree) -> None:
    with pytest.raises(ValueError, match=r"wrapper\.py defines no Gone"):
        pointing(fault("Gone", "flag"), report(WRAPPER, 1), "call", tree)


def test_which_files_are_read(tree: Tree) -> None:
    wrapper, *_ = every = ["engine/attention/wrapper.py", "engine/base.py", "engine/caller.py"]
    assert read_files("tree", tree.root, "engine", []) == every
    assert read_files("folders", tree.root, "engine", []) == [wrapper]
    assert read_files("named", tree.root, "engine", [fault("Wrapper", "ragged")]) == every
    assert read_files("named", tree.root, "engine", [fault("Wrapper", "flag")]) == [wrapper]


def ranged(start: tuple[int, int], end: tuple[int, int]) -> dict[str, dict[str, int]]:
    lines = {"start": start, "end": end}
    return {key: {"line": line, "character": column} for key, (line, column) in lines.items()}


OUTPUTS = {
    "pylint": (
        {
            "messages": [
                {"symbol": "no-member", "path": "a/b.py", "line": 3, "endLine": None,
                 "message": "m"},
                {"symbol": "no-member", "path": "a/b.py", "line": 3, "endLine": 5, "message": "n"},
                {"symbol": "line-too-long", "path": "a.py", "line": 1, "endLine": 1, "message": ""},
            ]
        },
        [Report("a/b.py", 3, 3, "no-member", "m"), Report("a/b.py", 3, 5, "no-member", "n")],
    ),
    "mypy": (
        [
            {"file": "a/b.py", "line": 3, "end_line": 4, "message": "m", "hint": "h",
             "code": "override", "severity": "error"},
            {"file": "a/b.py", "line": 3, "end_line": 4, "message": "see", "hint": None,
             "code": "override", "severity": "note"},
            {"file": "a/b.py", "line": 7, "end_line": None, "message": "Too many to unpack",
             "hint": None, "code": "misc", "severity": "error"},
            {"file": "a/b.py", "line": 8, "end_line": 8, "message": "m", "hint": None,
             "code": "misc", "severity": "error"},
        ],
        [
            Report("a/b.py", 3, 4, "override", "m\nh"),
            Report("a/b.py", 7, 7, "misc (unpack)", "Too many to unpack"),
        ],
    ),
    "pyright": (
        {
            "generalDiagnostics": [
                {"file": "ROOT/a/b.py", "severity": "error", "message": "m",
                 "range": ranged((2, 4), (2, 9)), "rule": "reportCallIssue"},
                {"file": "ROOT/a/b.py", "severity": "error", "message": "does not parse",
                 "range": ranged((2, 4), (2, 9))},
            ]
        },
        [Report("a/b.py", 3, 3, "reportCallIssue", "m")],
    ),
    "ruff": (
        [
            {"filename": "ROOT/a/b.py", "location": {"row": 3, "column": 1},
             "end_location": {"row": 4, "column": 1}, "code": "F811", "message": "m"},
            {"filename": "ROOT/a/b.py", "location": {"row": 3, "column": 1},
             "end_location": {"row": 4, "column": 1}, "code": None, "message": "does not parse"},
        ],
        [Report("a/b.py", 3, 4, "F811", "m")],
    ),
    "ty": (
        [
            {"check_name": "missing-argument", "description": "m", "severity": "major",
             "location": {"path": "a/b.py", "positions":
                          {"begin": {"line": 3, "column": 1}, "end": {"line": 4, "column": 2}}}},
        ],
        [Report("a/b.py", 3, 4, "missing-argument", "m")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("tool", tools(), ids=lambda tool: tool.name)
def test_what_a_tool_writes_is_read_and_kept(
    tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, expected = OUTPUTS[tool.name]
    root, cache = tmp_path / "engine-1.0", tmp_path / "cache"
    root.mkdir()
    lines = written if tool.name == "mypy" else [written]
    output = "\n".join(map(json.dumps, lines)).replace("ROOT", str(root))
    asked: list[list[str]] = []

    def answer(command: list[str], **settings: object) -> SimpleNamespace:
        asked.append(command)
        return SimpleNamespace(returncode=0, stdout=output, stderr="")

    monkeypatch.setattr(subprocess, "run", answer)
    programs = Path("/tools/bin")
    for _ in range(2):
        outcome = run(tool, programs, root, ["a/b.py", "a.py"], cache)
        assert (outcome.files, outcome.reports) == (2, expected)
    [command] = asked
    assert command[0] == str(programs / tool.name)
    assert set(tool.flags) < set(command)
    run(tool, programs, root, ["a/b.py"], cache)
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("name", "code", "output", "errors"),
    [
        ("pylint", 32, "{}", "no such option"),
        ("mypy", 2, "", "found twice under different module names"),
        ("pyright", 0, '{"generalDiagnostics": []}', "unrecognized setting"),
        ("ty", 101, "[]", "panicked"),
    ],
)
def test_a_tool_that_stops_early_is_an_error(
    name: str, code: int, output: str, errors: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = SimpleNamespace(returncode=code, stdout=output, stderr=errors)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    [tool] = [tool for tool in tools() if tool.name == name]
    with pytest.raises(RuntimeError, match=errors):
        run(tool, tmp_path, tmp_path, ["a.py"], tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_every_check_is_of_one_kind_and_every_family_has_kinds() -> None:
    for tool in tools():
        listed = [check for checks in tool.checks.values() for check in checks]
        assert len(listed) == len(set(listed)), tool.name
        assert {tool.newest, tool.older} <= {"tree", "folders", "named"}
        assert set(tool.checks) <= {kind for kinds in families().values() for kind in kinds}
    assert {case.family for case in cases()} == set(families())


def test_only_checks_that_fit_the_family_count(tree: Tree) -> None:
    [ruff] = [tool for tool in tools() if tool.name == "ruff"]
    reports = [report(WRAPPER, 9, check=check) for check in ("F811", "B024", "F821")]
    results = Results("ruff", "1", ruff)
    judge(results, "sglang", "0.1", Outcome(1.0, 1, reports), [fault("Wrapper.plan", "x")], tree)
    assert results.found == {"X1": {"B024": "names"}}
    assert results.newest == {}


def test_the_table_and_where_it_goes() -> None:
    known = [fault("Wrapper.plan", "x")]
    newest = Newest(True, 9, 1.0, Counter({"B024": 1200}), Counter({"B024": 7}))
    others = Newest(False, 9, 1.0, Counter({"B024": 8}), Counter({"B024": 7}))
    results = Results("ruff", "1", None, {"X1": {"B024": "names"}})
    results.newest = {"sglang": newest, "vllm": others, "tokenspeed": newest}
    table = short_form([results], known)
    assert table.splitlines()[-1] == "| ruff 1 | 1 | 0 | 7 / 1,200 | 7 / - | 7 / 1,200 |"
    page = "a\n<!-- side by side -->\nold\n<!-- end of side by side -->\nb\n"
    assert replaced(page, "\\1\n", "PAGE") == (
        "a\n<!-- side by side -->\n\n\\1\n\n<!-- end of side by side -->\nb\n"
    )
    with pytest.raises(ValueError, match="PAGE: expected one pair"):
        replaced("nothing", table, "PAGE")
