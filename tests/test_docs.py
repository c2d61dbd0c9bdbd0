"""The README holds: its commands are what CI runs, its tables and settings are the real ones."""

from __future__ import annotations

import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lint_rules.config import load_config
from lint_rules.demo import ENGINE
from mla_guard.cli import main
from mla_guard.diagnostic import LINT_RULES, RULE_NAMES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def fences(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def steps_of_ci() -> list[str]:
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    found = (line.strip() for line in lines)
    return [line.removeprefix("step ") for line in found if line.startswith("step ")]


def test_ci_runs_the_first_two_commands_of_the_readme() -> None:
    demo, tests, *_ = fences("console")
    linters = [
        ".venv/bin/ruff check",
        ".venv/bin/ruff format --check",
        ".venv/bin/mypy",
        ".venv/bin/mla-guard check",
        ".venv/bin/python -m tests.manual.build",
    ]
    browser = [
        ".venv/bin/pip install --quiet --editable '.[browser]'",
        ".venv/bin/pytest -m browser",
    ]
    venv, *install, run = tests.strip().split(" && ")
    assert steps_of_ci() == [*demo.strip().split(" && "), *install, *linters, run, *browser]
    assert demo.startswith(venv)


def test_the_first_command_installs_no_torch() -> None:
    assert "torch" not in fences("console")[0]


def test_every_rule_stands_in_the_table() -> None:
    rows = re.findall(r"^\| (MLA\d{3}) \| ([a-z-]+) \|", README, re.MULTILINE)
    assert sorted(rows) == sorted(RULE_NAMES.items())


def test_the_settings_shown_are_accepted(tmp_path: Path) -> None:
    [settings] = [fence for fence in fences("toml") if "select" in fence]
    (tmp_path / "python" / "engine").mkdir(parents=True)
    # Without the example's installed engine.
    text = settings.replace(', "sglang"', "")
    (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
    config = load_config([tmp_path / "python"])
    assert config.select == tuple(c for c in LINT_RULES if c.startswith(("MLA1", "MLA2")))
    assert config.stand_ins == (("Builtin", "Plugin"),)
    assert config.ignore == ("MLA102",)
    assert config.per_file_ignores == (("**/npu/", ("MLA101",)),)
    assert config.baseline == tmp_path / "mla-guard-baseline.txt"


def test_the_workflow_is_one_and_uploads_what_it_writes(tmp_path: Path) -> None:
    [workflow] = [fence for fence in fences("yaml") if "jobs:" in fence]
    path = tmp_path / "mla-guard.yaml"
    path.write_text(workflow, encoding="utf-8")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "github-workflows"]
    done = subprocess.run([*command, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    written = re.search(
        r"run: mla-guard check --output-format sarif --exit-zero > (\S+)\n", workflow
    )
    uploaded = re.search(r"sarif_file: (\S+)\n", workflow)
    assert written is not None
    assert uploaded is not None
    assert written[1] == uploaded[1]


def test_the_hook_shown_exists() -> None:
    [shown] = [fence for fence in fences("yaml") if "repos:" in fence]
    hooks = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    assert re.findall(r"- id: (\S+)", shown) == re.findall(r"- id: (\S+)", hooks)


def test_a_tree_with_findings_is_adopted_as_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ENGINE, tmp_path / "engine")
    monkeypatch.chdir(tmp_path)
    [settings] = [fence for fence in fences("toml") if "select" not in fence]
    (tmp_path / "pyproject.toml").write_text(settings, encoding="utf-8")
    [shown] = [fence for fence in fences("console") if "--write-baseline" in fence]
    commands = [shlex.split(line, comments=True) for line in shown.splitlines()]
    assert [main(words[1:]) for words in commands] == [0, 0, 0]


def test_the_guarded_hybrid_runs(tmp_path: Path) -> None:
    [example] = [fence for fence in fences("python") if "import mla_guard" in fence]
    path = tmp_path / "example.py"
    path.write_text(example, encoding="utf-8")
    runpy.run_path(str(path), run_name="example")


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_point_at_files_that_exist(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", text)
    assert [target for target in targets if not (ROOT / target).exists()] == []
