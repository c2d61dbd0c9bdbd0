"""The data of ``mla-guard report``: against the check and the printed matrix, and across trees."""

from __future__ import annotations

import inspect
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from lint_rules.demo import ENGINE
from lint_rules.html_report.command import page_data
from lint_rules.html_report.ends import difference
from lint_rules.html_report.manual import blocks
from lint_rules.html_report.trees import ReportError, labels
from mla_guard.cli import main
from mla_guard.diagnostic import LINT_RULES
from mla_guard.drift import shape_of

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bundled engine as 0.1; in 0.2 one fault is repaired and a second call has another."""
    for release in ("0.1", "0.2"):
        shutil.copytree(ENGINE, tmp_path / release / "engine")
        (tmp_path / release / "pyproject.toml").write_text("")
    later = tmp_path / "0.2" / "engine"
    triton = (later / "triton.py").read_text(encoding="utf-8")
    first, second = [m.start() for m in re.finditer(r"    def replay_cuda_graph", triton)]
    (later / "triton.py").write_text(triton[:first] + triton[second:], encoding="utf-8")
    (later / "extra.py").write_text(
        "from .base import AttentionBackend\n\n\nclass ExtraBackend(AttentionBackend):\n"
        "    def init_cuda_graph_state(self):\n        pass\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)


def data(*trees: str) -> Any:
    found, failures = page_data(trees)
    assert failures == []
    return json.loads(json.dumps(found))


def test_the_matrix_is_the_printed_one(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    found = data("0.1")
    [family] = [f for f in found["families"] if f["table"]]
    table = family["table"]
    monkeypatch.chdir("0.1")
    assert main(["contract", "--matrix"]) == 0
    hooks, rows, _legend, names, routes, _words = capsys.readouterr().out.split("\n\n")
    assert [f"{n:>3}  {h['declaration']}" for n, h in enumerate(table["hooks"], 1)] == (
        hooks.splitlines()
    )
    printed = [line.split() for line in rows.splitlines()[1:]]
    drawn = [[found["classes"][r["class"]]["name"], *r["letters"]] for r in table["rows"]]
    assert drawn == printed
    assert "D" in {letter for row in drawn for letter in row[1:]}
    routed = found["chains"]
    assert [f"{n:>3}  {name}" for n, name in enumerate(routed["names"], 1)] == names.splitlines()
    assert [row["chain"].split() + list(row["letters"]) for row in routed["rows"]] == [
        line.split() for line in routes.splitlines()[1:]
    ]


def test_the_findings_are_those_of_the_check(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = data("0.1")["findings"]
    monkeypatch.chdir("0.1")
    assert main(["check", "--output-format", "json"]) == 1
    checked = json.loads(capsys.readouterr().out)
    assert len(checked) == sum(not code.startswith("MLA0") for code in LINT_RULES)
    keys = ("code", "name", "severity", "message", "path", "line", "symbol", "reasons", "hint")
    assert [{k: f[k] for k in keys} for f in shown] == [{k: f[k] for k in keys} for f in checked]
    assert [[end["line"] for end in f["ends"]] for f in shown] == [
        [f["line"], *(r["line"] for r in f["related"])] for f in checked
    ]


def test_a_finding_shows_its_code_and_how_the_signatures_differ() -> None:
    found = data("0.1")
    [drift] = [f for f in found["findings"] if f["code"] == "MLA101"]
    assert (drift["owner"], drift["hook"]) == ("TRTLLMMLABackend", "init_mha_chunk_metadata")
    assert drift["diff"] == {
        "promised": "FlashInferMLABackend.init_mha_chunk_metadata",
        "mine": "TRTLLMMLABackend.init_mha_chunk_metadata",
        "parameters": [["same", "forward_batch"], ["promised", "disable_flashinfer_ragged=..."]],
    }
    marked = []
    for end in drift["ends"]:
        first, lines = found["excerpts"][end["excerpt"]]
        line = lines[end["line"] - first]
        source = Path("0.1", end["path"]).read_text(encoding="utf-8").split("\n")
        assert lines == source[first - 1 : first - 1 + len(lines)]
        marked.append(line[end["column"] - 1 :][: end["width"]])
    # the last is the call, through a local
    assert marked == ["init_mha_chunk_metadata", "init_mha_chunk_metadata", "inner"]


def test_a_missing_hook_belongs_to_its_cell() -> None:
    [missing] = [f for f in data("0.1")["findings"] if f["code"] == "MLA301"]
    assert (missing["owner"], missing["hook"]) == ("TwoBatchBackend", "init_mha_chunk_metadata")


def test_wrappers_name_what_they_hold() -> None:
    found = data("0.1")
    names = [k["name"] for k in found["classes"]]
    held = {k["name"]: {h["attr"] for h in k["holds"]} for k in found["classes"] if k["holds"]}
    assert held["PhaseBackend"] == {"prefill_backend", "decode_backend"}
    [phase] = [k for k in found["classes"] if k["name"] == "PhaseBackend"]
    assert {names[c] for h in phase["holds"] for c in h["classes"]} == {"AttentionBackend"}
    assert [names[b] for b in phase["bases"]] == ["AttentionBackend"]


def test_the_history_says_when_a_finding_came_and_went() -> None:
    found = data("0.1", "0.2")
    assert found["releases"] == ["0.1", "0.2"]
    rows = {(r["path"], r["code"], r["symbol"]): r for r in found["history"]}
    gone = rows["engine/triton.py", "MLA103", "TritonBackend.replay_cuda_graph"]
    assert (gone["counts"], gone["first"], gone["last"]) == ([1, 0], "0.1", "0.1")
    came = rows["engine/extra.py", "MLA101", "ExtraBackend.init_cuda_graph_state"]
    assert (came["counts"], came["first"], came["last"]) == ([0, 1], "0.2", "0.2")
    stays = rows["engine/trtllm_mla.py", "MLA101", "TRTLLMMLABackend.init_mha_chunk_metadata"]
    assert (stays["counts"], stays["first"], stays["last"]) == ([1, 1], "0.1", "0.2")
    shown = {(f["path"], f["code"], f["symbol"]): f["release"] for f in found["findings"]}
    assert shown.keys() == rows.keys()
    assert {key: row["last"] for key, row in rows.items()} == shown
    for finding in found["findings"]:
        row = found["history"][finding["key"]]
        assert (finding["path"], finding["code"], finding["symbol"]) == (
            row["path"],
            row["code"],
            row["symbol"],
        )


def test_the_manual_is_that_of_the_rules_found() -> None:
    found = data("0.1")
    assert sorted(found["rules"]) == sorted({f["code"] for f in found["findings"]})
    for code, rule in found["rules"].items():
        assert rule["blocks"][0][0] == "h1"
        assert code in rule["blocks"][0][1]
        kinds = {kind for kind, _ in rule["blocks"]}
        assert {"h2", "p", "code"} <= kinds <= {"h1", "h2", "h3", "p", "ul", "code"}


def test_blocks() -> None:
    text = (
        "# A\n\n## B\n\none\ntwo `x`:\n* first\n  goes on\n* second\n\n"
        "```python\n# no heading\n\n* no item\n```\n\nlast\n"
    )
    assert blocks(text) == [
        ("h1", "A"),
        ("h2", "B"),
        ("p", "one two `x`:"),
        ("ul", "first goes on\nsecond"),
        ("code", "# no heading\n\n* no item"),
        ("p", "last"),
    ]


def test_the_difference_of_two_signatures() -> None:
    def promised(a, b, *, c=1, **rest): ...  # type: ignore[no-untyped-def]
    def mine(b, *args, c=1): ...  # type: ignore[no-untyped-def]

    shapes = (shape_of(inspect.signature(f)) for f in (promised, mine))
    assert list(difference(*shapes)) == [
        ("promised", "a"),
        ("same", "b"),
        ("promised", "*"),
        ("mine", "*args"),
        ("same", "c=..."),
        ("promised", "**rest"),
    ]


@pytest.mark.parametrize(
    ("trees", "names"),
    [
        (["0.1"], ["0.1"]),
        (["0.1", "0.2"], ["0.1", "0.2"]),
        (["0.1/engine", "0.2/engine"], ["0.1", "0.2"]),
        (["0.1", "0.1/engine"], [".", "engine"]),
        (["0.1", "0.2/engine"], ["0.1", "0.2/engine"]),
    ],
)
def test_a_tree_is_called_what_tells_it_from_the_others(trees: list[str], names: list[str]) -> None:
    assert labels(trees) == names


def test_a_tree_given_twice_is_refused() -> None:
    with pytest.raises(ReportError, match=r"'0\.1/' is given twice: each tree is one release"):
        labels(["0.1", "0.1/"])
