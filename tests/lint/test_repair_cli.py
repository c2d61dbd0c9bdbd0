"""``--fix`` and ``--diff``: what is printed, written and returned."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lint_rules.repairs import REPAIRS
from mla_guard.cli import main
from mla_guard.diagnostic import REPAIRABLE

ENGINE = """\
class AttentionBackend:
    def plan(self, batch):
        raise NotImplementedError


class FlashBackend(AttentionBackend):
    def plan(self, batch, flag=False):
        self.flag = flag


class LatentBackend(FlashBackend):
    def plan(self, batch):
        super().plan(batch)
"""
REPAIRED = ENGINE.replace(
    "    def plan(self, batch):\n        super().plan(batch)",
    "    def plan(self, batch, flag=False):\n        super().plan(batch, flag=flag)",
)
LEFT = """

class WideBackend(FlashBackend):
    def plan(self, batch):
        self.rows = batch.rows
"""
DIFF = """\
--- engine.py
+++ engine.py
@@ -9,5 +9,5 @@
{0}
{0}
 class LatentBackend(FlashBackend):
-    def plan(self, batch):
-        super().plan(batch)
+    def plan(self, batch, flag=False):
+        super().plan(batch, flag=flag)
""".format(" ")


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text("[tool.mla-guard]\n")
    path = tmp_path / "engine.py"
    path.write_text(ENGINE)
    monkeypatch.chdir(tmp_path)
    return path


def test_fix_writes_and_exits_0_where_nothing_remains(
    engine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--fix"]) == 0
    out, err = capsys.readouterr()
    assert out == "No findings in 2 backend classes (1 file).\n"
    assert err == "Repaired 1 finding in 1 file (MLA101 1).\n"
    assert engine.read_text() == REPAIRED
    assert main(["check", "--fix"]) == 0
    assert capsys.readouterr().err == "Repaired nothing.\n"
    assert engine.read_text() == REPAIRED


def test_fix_exits_1_where_findings_remain(
    engine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.write_text(ENGINE + LEFT)
    assert main(["check", "--fix", "--output-format", "concise"]) == 1
    out, err = capsys.readouterr()
    assert out == (
        "engine.py:17:9: MLA101 WideBackend.plan cannot be called as FlashBackend.plan can: "
        "drops 'flag' (position 2) [hook-signature-drift] (warning)\n"
    )
    assert err == "Repaired 1 finding in 1 file (MLA101 1).\n"
    assert main(["check", "--fix", "--exit-zero"]) == 0


def test_diff_changes_nothing_and_exits_1_where_something_would_change(
    engine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--diff"]) == 1
    assert capsys.readouterr() == (DIFF, "Would repair 1 finding in 1 file (MLA101 1).\n")
    assert engine.read_text() == ENGINE
    engine.write_text(REPAIRED + LEFT)
    assert main(["check", "--diff"]) == 0
    assert capsys.readouterr() == ("", "Would repair nothing.\n")


def test_a_check_of_nothing_is_no_success(engine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine.write_text("x = 1\n")
    assert main(["check", "--diff"]) == main(["check", "--fix"]) == 2
    assert "nothing was checked" in capsys.readouterr().err


def test_the_difference_can_be_applied(engine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", "--diff"])
    shown = capsys.readouterr().out
    subprocess.run(["git", "apply", "-p0", "-"], input=shown, text=True, check=True)
    assert engine.read_text() == REPAIRED


def test_a_file_that_may_not_be_written_is_named(
    engine: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert main(["check", "--fix"]) == 2
    assert capsys.readouterr().err == (
        f"mla-guard: error: {engine} may not be written: nothing was repaired\n"
    )
    assert engine.read_text() == ENGINE


def test_one_or_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["check", "--fix", "--diff"])
    assert exit_.value.code == 2
    assert "not allowed with argument" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--fix", "--watch"], "--watch: not allowed with --fix: repairs are made once"),
        (
            ["--diff", "--write-baseline", "--baseline", "known.txt"],
            "--write-baseline: not allowed with --diff: repair first, then write the baseline",
        ),
        (
            ["--diff", "--output-format", "json"],
            "--output-format: not allowed with --diff: a unified diff is printed, and no findings",
        ),
        (
            ["--diff", "--statistics"],
            "--statistics: not allowed with --diff: a unified diff is printed, and no findings",
        ),
    ],
)
def test_options_that_mean_nothing_beside_repairs_are_refused(
    engine: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    assert main(["check", *options]) == 2
    assert capsys.readouterr().err == f"mla-guard: error: {said}\n"
    assert engine.read_text() == ENGINE


def test_what_a_baseline_holds_is_not_repaired(
    engine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = engine.with_name("known.txt")
    known.write_text("engine.py: MLA101 LatentBackend.plan\n")
    assert main(["check", "--fix", "--baseline", "known.txt"]) == 0
    assert engine.read_text() == ENGINE
    latent = ENGINE[ENGINE.index("\n\nclass LatentBackend") :]
    engine.write_text(ENGINE + latent.replace("Latent", "Top"))
    capsys.readouterr()
    assert main(["check", "--diff", "--baseline", "known.txt"]) == 1
    out = capsys.readouterr().out
    assert out.count("+    def plan(self, batch, flag=False)") == 1
    assert " class TopBackend(FlashBackend):\n-    def plan(self, batch):" in out


def test_a_stale_line_of_the_baseline_is_reported(
    engine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.with_name("known.txt").write_text("engine.py: MLA101 GoneBackend.plan\n")
    command = ["check", "--fix", "--baseline", "known.txt", "--output-format", "concise"]
    assert main(command) == 1
    out, err = capsys.readouterr()
    assert out.startswith("known.txt:1:1: MLA003 ")
    assert out.count("\n") == 1
    assert err == "Repaired 1 finding in 1 file (MLA101 1).\n"


def test_what_did_not_change_is_not_repaired(
    engine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = engine.with_name("other.py")
    other.write_text(
        "from engine import FlashBackend\n\n\nclass OtherBackend(FlashBackend):\n"
        "    def plan(self, batch):\n        super().plan(batch)\n"
    )
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *command], check=True)
    assert main(["check", "--fix", "--changed-since", "HEAD"]) == 0
    assert capsys.readouterr().err == "Repaired nothing.\n"
    other.write_text(other.read_text() + "\n")
    assert main(["check", "--fix", "--changed-since", "HEAD"]) == 0
    assert capsys.readouterr().err == "Repaired 1 finding in 1 file (MLA101 1).\n"
    assert engine.read_text() == ENGINE


@pytest.mark.parametrize("options", [[], ["--no-cache"]])
def test_a_cache_does_not_change_the_repairs(
    engine: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    assert main(["check", *options]) == 1
    assert main(["check", "--diff", *options]) == 1
    assert main(["check", *options]) == 1  # what was tried in memory is not taken for the file
    assert main(["check", "--fix", *options]) == 0
    assert main(["check", *options]) == 0
    assert engine.read_text() == REPAIRED


def test_a_check_says_what_may_be_repaired(
    engine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(engine)]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == (
        "Found 1 warning in 2 backend classes (1 file). 1 may be repairable with --fix."
    )
    assert set(REPAIRS) == REPAIRABLE


def test_a_check_does_not_load_the_repairs(engine: Path) -> None:
    program = (
        "import sys\nfrom mla_guard.cli import main\nmain(['check', 'engine.py'])\n"
        "print([m for m in sys.modules if m.startswith(('lint_rules.repairs', 'lint_rules.fix'))])"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(root)},
    )
    assert done.stdout.splitlines()[-1] == "[]"
