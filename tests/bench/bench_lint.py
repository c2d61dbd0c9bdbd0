"""``mla-guard check`` on whole engine releases, beside other tools on the same tree.

    python -m tests.bench.bench_lint [--version 0.5.23 0.5.13] [--runs 5] [--tools VENV]

Every run is a process of its own on a copy of the release; memory is the proportional set size of
all its processes together (Linux only). ``VENV`` is a virtual environment with the other tools; it
is made, and they are installed, where there is none.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from lint_rules.tree import GRANULARITY_NS
from tests.bench.measured import Run, median, run
from tests.field.wheels import unpacked

OTHERS = ("ruff", "ty", "pyrefly", "pyright", "mypy", "pylint")
RELATED = (
    "no-member,access-member-before-definition,attribute-defined-outside-init,arguments-differ,"
    "arguments-renamed,signature-differs,abstract-method,super-init-not-called,"
    "non-parent-init-called,no-value-for-parameter,unexpected-keyword-arg,too-many-function-args"
)
_REFUSED = (range(2, 256), (32,))
"""Exit codes of a tool that did not do its work; pylint's are sets of bits for what it found."""
BACKEND, BASE = "TRTLLMMLABackend", "AttentionBackend"


def main(argv: Sequence[str] | None = None) -> int:
    """Print one table for each version."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--version", nargs="+", default=["0.5.23", "0.5.13"])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--tools", type=Path, default=Path(".venv-tools"))
    parser.add_argument("--only", help="a regular expression of the rows to measure")
    arguments = parser.parse_args(argv)
    tools = with_tools(arguments.tools.resolve())
    for version in arguments.version:
        with tempfile.TemporaryDirectory() as folder:
            tree = Path(folder) / "tree"
            shutil.copytree(unpacked("sglang", version), tree)
            table(version, tree, tools, arguments.runs, re.compile(arguments.only or ""))
    return 0


def with_tools(venv: Path) -> Path:
    """The folder of the other tools' commands."""
    commands = venv / "bin"
    if not (commands / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    missing = [tool for tool in OTHERS if not (commands / tool).exists()]
    if missing:
        subprocess.run([commands / "python", "-m", "pip", "install", "-q", *missing], check=True)
    return commands


def table(version: str, tree: Path, tools: Path, runs: int, only: re.Pattern[str]) -> None:
    """Measure every row and print it."""
    files = list(tree.rglob("*.py"))
    lines = sum(path.read_bytes().count(b"\n") for path in files)
    print(
        f"sglang {version}: {len(files)} files, {lines} lines; {os.cpu_count()} cores, Python "
        f"{sys.version.split()[0]}; medians of {runs}"
    )
    for name, measure in (*own_rows(tree), *other_rows(tree, tools)):
        if only.search(name):
            seconds, peak = median([measure() for _ in range(runs)])
            print(f"{name:44} {seconds:8.2f} s {peak:7.0f} MiB", flush=True)


def own_rows(tree: Path) -> Iterator[tuple[str, Callable[[], Run]]]:
    """mla-guard's rows, and the interpreter alone. Each row leaves the tree as it found it."""
    command = [sys.executable, "-m", "mla_guard", "check", str(tree), "--output-format", "json"]
    here = Path.cwd()

    def check(cache: Path) -> Run:
        environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(here)}
        done = run(command, tree, environment)
        if done.code not in (0, 1):
            raise RuntimeError(f"the check of {tree} exited with {done.code}")
        return done

    def cold() -> Run:
        with tempfile.TemporaryDirectory() as cache:
            return check(Path(cache))

    cache = tree.parent / "cache"

    def settle() -> None:
        """Leave a cache in which every file counts as unchanged for long."""
        time.sleep(GRANULARITY_NS / 1e9 + 0.1)
        for _ in range(2):
            check(cache)

    def warm() -> Run:
        if not cache.exists():
            settle()
        return check(cache)

    def edited(name: str) -> Callable[[], Run]:
        path = defining(tree, name)
        original = path.read_text()
        header = re.compile(rf"^class {name}\b[^:]*:\n(?:    \"{{3}}.*?\"{{3}}\n)?", re.M | re.S)
        edits = 0

        def measure() -> Run:
            nonlocal edits
            edits += 1
            added = f"    edited_{edits} = {edits}\n\n    def hook_{edits}(self, batch): ...\n\n"
            settle()
            path.write_text(header.sub(lambda m: m.group() + added, original, count=1))
            done = check(cache)
            path.write_text(original)
            return done

        return measure

    yield (
        "python -c 'import json, argparse'",
        lambda: run([sys.executable, "-c", "import json, argparse"], tree),
    )
    yield "mla-guard, cold", cold
    yield "mla-guard, warm", warm
    yield f"mla-guard, {BACKEND}'s file edited", edited(BACKEND)
    yield f"mla-guard, {BASE}'s file edited", edited(BASE)


def defining(tree: Path, name: str) -> Path:
    """The file with the most code of those that define the class ``name``."""
    header = re.compile(rf"^class {name}\b".encode(), re.M)
    found = [path for path in tree.rglob("*.py") if header.search(path.read_bytes())]
    return max(found, key=lambda path: ("layers/attention" in str(path), path.stat().st_size))


def other_rows(tree: Path, tools: Path) -> Iterator[tuple[str, Callable[[], Run]]]:
    """The rows of other tools. What they print goes nowhere; findings make them exit with 1."""

    def command(*words: str) -> Callable[[], Run]:
        def measure() -> Run:
            done = run([str(tools / words[0]), *words[1:]], tree)
            if done.code in _REFUSED[words[0] == "pylint"]:
                raise RuntimeError(f"{words[0]} exited with {done.code}: {done.output[-500:]}")
            return done

        return measure

    def after_one(measure: Callable[[], Run]) -> Callable[[], Run]:
        primed = False

        def again() -> Run:
            nonlocal primed
            if not primed:
                measure()
                primed = True
            return measure()

        return again

    everything = ["ruff", "check", "--isolated", "-q", "--select", "ALL", "--preview"]
    yield "ruff, every rule, no cache", command(*everything, "--no-cache", ".")
    yield "ruff, every rule, cache", after_one(command(*everything, "."))
    plain = command("ruff", "check", "--isolated", "-q", ".")
    yield "ruff, default rules, cache", after_one(plain)
    yield "ty", command("ty", "check", ".")
    yield "pyrefly", command("pyrefly", "check", ".")
    yield "pyright", command("pyright", ".")
    mypy = ["mypy", "--ignore-missing-imports", "--namespace-packages", "sglang"]
    yield "mypy, cold", command(*mypy, "--cache-dir", os.devnull)
    yield "mypy, warm", after_one(command(*mypy))
    # its recursive mode leaves out folders without an __init__.py, which is most of sglang
    files = sorted(str(path.relative_to(tree)) for path in tree.rglob("*.py"))
    related = ["pylint", "-j0", "--disable=all", f"--enable={RELATED}"]
    yield "pylint, related checks", command(*related, *files)


if __name__ == "__main__":
    sys.exit(main())
