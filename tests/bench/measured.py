"""Wall time and peak memory of a command and all its processes (Linux)."""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

__all__ = ["Run", "median", "run"]


class Run(NamedTuple):
    """One measured process: seconds, peak memory in MiB, exit code, and what it printed."""

    seconds: float
    peak_mib: float
    code: int
    output: str


def run(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str] | None = None,
    sample_seconds: float = 0.02,
) -> Run:
    """Run ``command``; memory is the proportional set size of its processes together, sampled."""
    started = time.perf_counter()
    peak = 0.0
    # A file, not a pipe: nobody reads a pipe while the samples are taken.
    with (
        tempfile.TemporaryFile("w+") as output,
        subprocess.Popen(
            command, cwd=folder, env=environment, stdout=output, stderr=subprocess.DEVNULL
        ) as process,
    ):
        while True:
            peak = max(peak, sum(map(_pss_mib, _family(process.pid))))
            try:
                process.wait(sample_seconds)
                break
            except subprocess.TimeoutExpired:
                continue
        seconds = time.perf_counter() - started
        output.seek(0)
        return Run(seconds, peak, process.returncode, output.read())


class Measured(Protocol):
    """What a run took."""

    @property
    def seconds(self) -> float: ...

    @property
    def peak_mib(self) -> float: ...


def median(runs: Sequence[Measured]) -> tuple[float, float]:
    """The medians of seconds and of MiB."""
    return (
        statistics.median(r.seconds for r in runs),
        statistics.median(r.peak_mib for r in runs),
    )


def _family(pid: int) -> list[int]:
    """``pid`` and its descendants."""
    found = [pid]
    for parent in found:
        try:
            children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        except OSError:
            continue
        found += map(int, children)
    return found


def _pss_mib(pid: int) -> float:
    """The proportional set size of one process, 0 once it is gone."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    sizes = [line.split()[1] for line in rollup.splitlines() if line.startswith("Pss:")]
    return int(sizes[0]) / 1024 if sizes else 0.0
