"""How the time of a check grows with the number of classes.

    python -m tests.bench.bench_scaling [--sizes 100 300 1000 3000 10000] [--runs 3]

A synthetic engine of backends, each in a file of its own with a caller, is checked cold, warm, and
with one file edited; the linking step is timed apart. The exponent is the slope of a line fitted to
the logarithms of size and time.
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from lint_rules.cache import Cache
from lint_rules.config import Config
from lint_rules.judge import Judge
from lint_rules.library import Library
from lint_rules.link import Project
from lint_rules.load import load
from lint_rules.profiles import BACKEND_ROOTS, COMPANION_ROOTS
from lint_rules.rules import RULES
from lint_rules.tree import GRANULARITY_NS, list_files
from tests.bench.measured import run

BASE = """\
class AttentionBackend:
    def plan(self, batch, flag=False):
        raise NotImplementedError

    def run(self, q, k, v, save=True):
        raise NotImplementedError
"""
BACKEND = """\
from engine.{module} import {parent}


class Backend{number}({parent}):
    def __init__(self, runner, skip=False):
        self.runner = runner
        if not skip:
            self.table_{number} = runner.table

    def plan(self, batch, flag=False):
        self.batch = batch
        return self.helper(batch)

    def helper(self, batch):
        if self.runner.enabled and batch.size > {number}:
            return batch.rows
        return None

    def run(self, q, k, v, save=True):
        for step in range(4):
            q = q + self.runner.scale * step
        return q
"""
CALLER = """\
from engine.part_{folder}.backend_{number} import Backend{number}


class Caller{number}:
    def __init__(self, runner):
        self.attn_backend = Backend{number}(runner)

    def step(self, batch):
        self.attn_backend.plan(batch, flag=True)
        return self.attn_backend.run(batch, batch, batch)
"""


def build(root: Path, classes: int) -> Path:
    """Write an engine of so many backends, trees of ten below the base; one of its files."""
    (root / "engine").mkdir()
    (root / "pyproject.toml").write_text("[tool.mla-guard]\n")
    (root / "engine" / "base.py").write_text(BASE)
    for number in range(classes):
        folder = number // 100
        part = root / "engine" / f"part_{folder}"
        part.mkdir(exist_ok=True)
        parent, module = "AttentionBackend", "base"
        if number % 10:
            above = number - number % 10
            parent, module = f"Backend{above}", f"part_{above // 100}.backend_{above}"
        (part / f"backend_{number}.py").write_text(
            BACKEND.format(module=module, parent=parent, number=number)
        )
        (part / f"caller_{number}.py").write_text(CALLER.format(folder=folder, number=number))
    return root / "engine" / "part_0" / "backend_5.py"


def main(argv: Sequence[str] | None = None) -> int:
    """Print a row for each size, then the exponents."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--sizes", nargs="+", type=int, default=[100, 300, 1000, 3000, 10000])
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args(argv)
    if len(set(arguments.sizes)) < 2:
        parser.error("--sizes needs two different sizes: an exponent is a slope")
    rows: list[list[float]] = []
    names = ("cold", "warm", "one edited", "linking")
    print(f"{'classes':>8}" + "".join(f"{name:>12}" for name in names))
    for size in arguments.sizes:
        with tempfile.TemporaryDirectory() as folder:
            row = measure(Path(folder), size, arguments.runs)
        rows.append(row)
        print(f"{size:8}" + "".join(f"{seconds:10.2f} s" for seconds in row), flush=True)
    exponents = [exponent(arguments.sizes, column) for column in zip(*rows, strict=True)]
    print("exponent" + "".join(f"{value:12.2f}" for value in exponents))
    return 0


def measure(root: Path, classes: int, runs: int) -> list[float]:
    """Medians in seconds: cold, warm, one file edited, the linking step."""
    path = build(root, classes)
    original = path.read_text()
    here = str(Path.cwd())

    def check(*options: str) -> float:
        command = [sys.executable, "-m", "mla_guard", "check", "--exit-zero"]
        done = run([*command, *options, "."], root, {**os.environ, "PYTHONPATH": here})
        if done.code:
            raise RuntimeError(f"the check of {root} exited with {done.code}")
        return done.seconds

    def edited(number: int) -> float:
        path.write_text(original.replace("range(4)", f"range({number + 5})"))
        return check()

    cold = statistics.median(check("--no-cache") for _ in range(runs))
    check()
    time.sleep(GRANULARITY_NS / 1e9 + 0.1)
    check()
    warm = statistics.median(check() for _ in range(runs))
    one = statistics.median(edited(number) for number in range(runs))
    return [cold, warm, one, statistics.median(linking(root) for _ in range(runs))]


def linking(root: Path) -> float:
    """Seconds of processor time from the facts of all files to the findings."""
    listing = list_files([root], Config(src=(root,), root=root))
    with Library(listing, Cache(root / ".mla_guard_cache"), time.time_ns()) as library:
        files = load(library, BACKEND_ROOTS, COMPANION_ROOTS).project.files.values()
        gc.collect()
        gc.disable()
        started = time.process_time()
        project = Project(files, BACKEND_ROOTS)
        judge = Judge(project, project.roots, library.texts)
        for rule in RULES.values():
            for _ in rule(judge):
                pass
        seconds = time.process_time() - started
        gc.enable()
    return seconds


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """The slope of the line through the logarithms, by least squares."""
    return statistics.linear_regression(
        [math.log(size) for size in sizes], [math.log(value) for value in seconds]
    ).slope


if __name__ == "__main__":
    sys.exit(main())
