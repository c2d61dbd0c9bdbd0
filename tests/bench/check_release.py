"""Wall time and peak memory of ``mla-guard check`` on a whole engine release.

    python -m tests.bench.check_release [--version 0.5.23] [--runs 3]

Each run is a fresh process on the release's unpacked sources; memory is the proportional set size
of all its processes together, sampled every 50 ms (Linux only).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.field.wheels import unpacked

SAMPLE_SECONDS = 0.05


class Run(NamedTuple):
    """One measured check."""

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
        run = measure(sources)
        print(f"run {number}: {run.seconds:.2f} s, {run.peak_mib:.0f} MiB")
        runs.append(run)
    print(
        f"median: {statistics.median(run.seconds for run in runs):.2f} s, "
        f"{statistics.median(run.peak_mib for run in runs):.0f} MiB"
    )
    counts = Counter((str(f["code"]), str(f["severity"])) for f in runs[-1].findings)
    for (code, severity), count in sorted(counts.items()):
        print(f"{code} {severity}: {count}")
    return 0


def measure(sources: Path) -> Run:
    """Check ``sources`` in a process of its own; a check that fails is an error."""
    command = [sys.executable, "-m", "mla_guard", "check", str(sources), "--output-format", "json"]
    started = time.perf_counter()
    peak = 0.0
    # A file, not a pipe: nobody reads a pipe while the samples are taken.
    with (
        tempfile.TemporaryFile("w+") as output,
        subprocess.Popen(command, stdout=output) as process,
    ):
        while process.poll() is None:
            peak = max(peak, sum(map(pss_mib, family(process.pid))))
            time.sleep(SAMPLE_SECONDS)
        seconds = time.perf_counter() - started
        if process.returncode not in (0, 1):
            raise RuntimeError(f"the check of {sources} exited with {process.returncode}")
        output.seek(0)
        return Run(seconds, peak, json.load(output))


def family(pid: int) -> list[int]:
    """``pid`` and its descendants."""
    found = [pid]
    for parent in found:
        try:
            children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        except OSError:
            continue
        found += map(int, children)
    return found


def pss_mib(pid: int) -> float:
    """The proportional set size of one process, 0 once it is gone."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    [kilobytes] = [line.split()[1] for line in rollup.splitlines() if line.startswith("Pss:")]
    return int(kilobytes) / 1024


if __name__ == "__main__":
    sys.exit(main())
