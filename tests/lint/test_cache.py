"""Whatever happens to the cache, the result is that of a check without one."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from dataclasses import fields, replace
from pathlib import Path

import pytest

import lint_rules.reader
import lint_rules.tree
from lint_rules.cache import Cache, cache_folder, clear
from lint_rules.config import Config, load_config
from lint_rules.report import FileFailure, Report, packed, unpacked
from lint_rules.run import check
from lint_rules.tree import GRANULARITY_NS
from mla_guard.cli import main
from mla_guard.diagnostic import Diagnostic, Place, Related
from tests.lint.edits import FILES

KILLS = int(os.environ.get("MLA_GUARD_TEST_KILLS", "6"))
COMMAND = [sys.executable, "-m", "mla_guard", "check", "--output-format", "json"]


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The miniature engine, written long ago."""
    root = tmp_path / "project"
    (root / "engine").mkdir(parents=True)
    (root / "pyproject.toml").write_text("[tool.mla-guard]\n")
    for name, text in FILES.items():
        (root / name).write_text(text)
    monkeypatch.setattr(lint_rules.tree, "GRANULARITY_NS", 0)
    monkeypatch.chdir(root)
    return root


def result(root: Path, cache: Cache | None = None) -> Report:
    return check([root], load_config([root]), cache=cache)


def files_in(folder: Path) -> list[str]:
    return sorted(p.name.partition("-")[0] for p in folder.iterdir())


KEPT = [".gitignore", "facts", "report", "report", "rows"]


def test_the_second_check_parses_nothing_and_links_nothing(engine: Path) -> None:
    program = (
        "import sys, mla_guard.cli as cli; cli.main(['check', '--exit-zero']); "
        "asked = {'libcst', 'libcst.native', 'msgspec', 'lint_rules.link', 'pathspec'}; "
        "print(*sorted(asked & set(sys.modules)))"
    )

    def run() -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()

    *cold, loaded = run()
    assert loaded == "libcst.native lint_rules.link msgspec"
    time.sleep(GRANULARITY_NS / 1e9 + 0.1)  # until what was just written counts as settled
    run()
    assert run() == [*cold, ""]


def test_what_is_kept_is_not_found_out_again(
    engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(tmp_path / "cache")
    extracted: list[str] = []
    original = lint_rules.reader.Reader.extract

    def noting(self: lint_rules.reader.Reader, jobs: list[lint_rules.reader.Job]) -> object:
        jobs = list(jobs)
        extracted.extend(Path(job.path).name for job in jobs)
        return original(self, jobs)

    monkeypatch.setattr(lint_rules.reader.Reader, "extract", noting)
    first = result(engine, cache)
    assert len(extracted) > 6
    extracted.clear()
    assert result(engine, cache) == first
    assert extracted == []
    fast = engine / "engine" / "fast.py"
    fast.write_text(fast.read_text().replace("def plan(self, batch):", "def plan(self, x, y):"))
    changed = result(engine, cache)
    assert extracted == ["fast.py"]
    assert changed == result(engine)
    assert changed != first


def test_a_configuration_that_backends_read_is_read_again_when_it_is_edited(
    engine: Path, tmp_path: Path
) -> None:
    def lines(report: Report) -> list[int]:
        return [d.place.line for d in report.diagnostics if d.code == "MLA206"]

    cache = Cache(tmp_path / "cache")
    config, fast = engine / "engine" / "config.py", engine / "engine" / "fast.py"
    cold = result(engine)
    assert lines(cold) == [18]
    assert result(engine, cache) == cold
    assert result(engine, cache) == cold
    text = config.read_text()
    for where, new, expected in (
        (fast, fast.read_text() + "\n", [18]),
        (config, "\n" + text, [19]),
        (config, text.replace("self.scale = 0.5", "pass"), []),
        (config, text.replace("self.scale = 1.0", "pass"), []),
        (config, text, [18]),
    ):
        where.write_text(new)
        warm = result(engine, cache)
        assert warm == result(engine)
        assert lines(warm) == expected


def test_a_report_survives_its_way_through_json(engine: Path) -> None:
    report = result(engine)
    full = Diagnostic("MLA101", "error", "m", Place("p", 1, 2), "s", (Related(Place("q", 3), "r"),))
    full = replace(full, reasons=("one", "two"), hint="h")
    report = replace(report, diagnostics=(*report.diagnostics, full), unresolved=full.related)
    report = replace(
        report, failures=(FileFailure("p", 1, "m"),), files=3, classes=2, roots=("a",), held=1
    )
    # a field that keeps its default here would be lost without anybody's notice
    for item in (full, report):
        assert [f.name for f in fields(item) if getattr(item, f.name) in ((), "", 0)] == []
    assert unpacked(json.loads(json.dumps(packed(report)))) == report


def test_an_edit_that_leaves_size_and_time_of_modification_is_seen(
    engine: Path, tmp_path: Path
) -> None:
    cache = Cache(tmp_path / "cache")
    first = result(engine, cache)
    fast = engine / "engine" / "fast.py"
    before = fast.stat()
    fast.write_text(fast.read_text().replace("def plan(self", "def plam(self"))
    os.utime(fast, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert fast.stat().st_size == before.st_size
    assert result(engine, cache) == result(engine) != first


@pytest.mark.parametrize("name", ["rows", "facts", "recent", "judged", "report"])
@pytest.mark.parametrize("damage", ["truncated", "random", "empty", "flipped", "folder"])
def test_a_damaged_file_is_made_anew(engine: Path, tmp_path: Path, name: str, damage: str) -> None:
    cache = Cache(tmp_path / "cache")
    result(engine, cache)
    fast = engine / "engine" / "fast.py"
    fast.write_text(fast.read_text().replace("def plan", "def plam"))
    expected = result(engine, cache)
    damaged = list((tmp_path / "cache").glob(f"{name}*"))
    assert damaged
    for path in damaged:
        data = path.read_bytes()
        if damage == "truncated":
            path.write_bytes(data[: len(data) // 2])
        elif damage == "random":
            path.write_bytes(random.Random(1).randbytes(len(data)))
        elif damage == "empty":
            path.write_bytes(b"")
        elif damage == "flipped":
            middle = len(data) // 2
            path.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
        else:
            path.unlink()
            path.mkdir()
    assert result(engine, cache) == expected
    fast.write_text(fast.read_text().replace("Fast", "Faster"))
    assert result(engine, cache) == result(engine) != expected


def test_another_version_of_the_tool_starts_anew(
    engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(tmp_path / "cache")
    cache.write("rows", b"content")
    assert cache.read("rows") == b"content"
    monkeypatch.setattr("lint_rules.cache.tool_version", lambda: b"another")
    assert cache.read("rows") is None


def test_where_nothing_can_be_written_nothing_is_kept(engine: Path) -> None:
    blocked = Cache(engine / "pyproject.toml" / "cache")
    assert result(engine, blocked) == result(engine, blocked) == result(engine)


def test_a_read_only_project_is_checked(engine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.chmod(0o555)
    if os.geteuid() == 0:  # root may write everywhere, so that nothing but the answer can differ
        may = os.access
        monkeypatch.setattr(
            os, "access", lambda path, mode: Path(path) != engine and may(path, mode)
        )
    try:
        before = sorted(engine.iterdir())
        folder = cache_folder(load_config([engine]), [engine])
        assert engine not in folder.parents
        assert main(["check", "--exit-zero"]) == 0
        assert sorted(engine.iterdir()) == before
    finally:
        engine.chmod(0o755)


@pytest.mark.parametrize("limit", [0, 100, 3000])
def test_a_full_disk_keeps_nothing_half(engine: Path, limit: int) -> None:
    def full() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    expected = subprocess.run([*COMMAND, "--no-cache"], capture_output=True, text=True)
    # a pipe is no file: only what the cache writes meets the limit
    done = subprocess.run(COMMAND, capture_output=True, text=True, preexec_fn=full)
    assert (done.stdout, done.stderr) == (expected.stdout, expected.stderr)
    left = files_in(engine / ".mla_guard_cache")
    assert [name for name in left if name.endswith(".tmp")] == []
    again = subprocess.run(COMMAND, capture_output=True, text=True)
    assert (again.stdout, again.stderr) == (expected.stdout, expected.stderr)


def test_checks_at_once_on_one_cache(engine: Path) -> None:
    expected = subprocess.run([*COMMAND, "--no-cache"], capture_output=True, text=True).stdout
    running = [subprocess.Popen(COMMAND, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [process.communicate()[0] for process in running] == [expected] * 4
    assert subprocess.run(COMMAND, capture_output=True, text=True).stdout == expected


def test_a_check_killed_at_any_moment_leaves_a_cache_that_can_be_used(engine: Path) -> None:
    expected = subprocess.run([*COMMAND, "--no-cache"], capture_output=True, text=True).stdout
    started = time.perf_counter()
    subprocess.run(COMMAND, capture_output=True)
    whole = time.perf_counter() - started
    moments = random.Random(7)
    for _ in range(KILLS):
        clear(engine / ".mla_guard_cache")
        with subprocess.Popen(COMMAND, stdout=subprocess.DEVNULL) as process:
            time.sleep(moments.uniform(0.2, 1.1) * whole)
            process.kill()
        again = subprocess.run(COMMAND, capture_output=True, text=True)
        assert (again.stdout, again.stderr) == (expected, "")


def test_the_number_of_reports_is_bounded(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    for number in range(50):
        cache.write_report(number.to_bytes(16, "big"), b"report")
    kept = sorted((tmp_path / "cache").glob("report-*"))
    assert len(kept) == 32
    assert cache.read_report((49).to_bytes(16, "big")) == b"report"


def test_the_cache_stands_in_the_project_and_git_leaves_it_out(
    engine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cache", "dir"]) == 0
    assert capsys.readouterr().out == f"{engine}/.mla_guard_cache\n"
    assert main(["check", "--exit-zero"]) == 0
    assert (engine / ".mla_guard_cache" / ".gitignore").read_text().endswith("\n*\n")


def test_what_is_no_project_has_its_cache_with_the_user(tmp_path: Path) -> None:
    config = Config(src=(tmp_path,))
    folder = cache_folder(config, [tmp_path])
    assert folder.parent == Path(os.environ["XDG_CACHE_HOME"]) / "mla-guard"
    assert folder != cache_folder(Config(src=(tmp_path / "other",)), [tmp_path])


def test_clear_removes_what_a_cache_keeps_and_nothing_else(
    engine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--exit-zero"]) == 0
    folder = engine / ".mla_guard_cache"
    (folder / "mine").write_text("")
    capsys.readouterr()
    count = len(files_in(folder)) - 1
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().out == f"Removed {count} files from {folder}.\n"
    assert files_in(folder) == ["mine"]
    (folder / "mine").unlink()
    assert main(["cache", "clear"]) == 0
    assert not folder.exists()


def test_no_cache_reads_and_keeps_nothing(engine: Path) -> None:
    assert main(["check", "--exit-zero", "--no-cache"]) == 0
    assert not (engine / ".mla_guard_cache").exists()
