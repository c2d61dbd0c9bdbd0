"""Wall time and peak memory of ``mla-guard check`` on a whole engine release.

    python -m tests.bench.check_release [--version 0.5.23] [--runs 3]

Each run is a fresh process on the release's unpacked sources; memory is the proportional set size
of all its processes together, sampled (Linux only).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.bench.measured import median, run
from tests.field.wheels import unpacked


class Checked(NamedTuple):
    """One measured check: seconds, peak memory in MiB, and its findings."""

    seconds: float
    peak_mib: float
    findings: list[dict[str, object]]


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line for each run, then the medians and the findings per rule."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--version", default="0.5.23", help="pinned version of sglang")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args(argv)
    sources = unpacked("sglang", arguments.version)
    files = sum(1 for _ in sources.rglob("*.py"))
    print(
        f"sglang {arguments.version}: {files} files, {os.cpu_count()} cores, Python "
        f"{sys.version.split()[0]}"
    )
    runs = []
    for number in range(1, arguments.runs + 1):
        done = measure(sources)
        print(f"run {number}: {done.seconds:.2f} s, {done.peak_mib:.0f} MiB")
        runs.append(done)
    seconds, peak = median(runs)
    print(f"median: {seconds:.2f} s, {peak:.0f} MiB")
    counts = Counter((str(f["code"]), str(f["severity"])) for f in runs[-1].findings)
    for (code, severity), count in sorted(counts.items()):
        print(f"{code} {severity}: {count}")
    return 0


def measure(sources: Path) -> Checked:
    """Check ``sources`` cold, in a process of its own; a check that fails is an error."""
    command = [sys.executable, "-m", "mla_guard", "check", str(sources), "--output-format", "json"]
    done = run([*command, "--no-cache"], Path.cwd())
    if done.code not in (0, 1):
        raise RuntimeError(f"the check of {sources} exited with {done.code}")
    return Checked(done.seconds, done.peak_mib, json.loads(done.output))


if __name__ == "__main__":
    sys.exit(main())
