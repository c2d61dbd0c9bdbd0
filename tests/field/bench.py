"""What the linter finds in releases of engines: the known faults, and how right the rest is.

    python -m tests.field.bench [--engine sglang]

Downloads the pinned releases (once), checks each as a whole in a process of its own, and prints the
known faults found and missed, whether they are gone where they are fixed, the findings per rule on
the newest releases with the verdicts of ``labels.toml``, the faults of ``outside.toml``, and run
time and peak memory. Exits with 1 where a finding has no label, a label no finding, or a fault of
``outside.toml`` is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

from tests.bench.check_release import Checked, measure
from tests.field.cases import NEWEST, Case, Finding, cases, package_of, relative
from tests.field.labels import VERDICTS, compare, labels
from tests.field.outside import faults, print_outside
from tests.field.wheels import pins

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--engine", choices=sorted(NEWEST), help="this engine only")
    arguments = parser.parse_args(argv)
    engines = [arguments.engine] if arguments.engine else list(NEWEST)
    chosen = [case for case in cases() if case.engine in engines]
    runs = _checked(engines, chosen)
    findings = {
        key: [relative(f, package_of(*key)) for f in run.findings] for key, run in runs.items()
    }
    _print_cases(chosen, findings)
    wrong = [_print_newest(engine, findings[engine, NEWEST[engine]]) for engine in engines]
    beside = [f for f in faults() if not arguments.engine or f.engine == arguments.engine]
    wrong.append(print_outside(beside, findings))
    print("\nrelease              seconds  peak MiB  findings")
    for (engine, release), run in runs.items():
        name = f"{engine} {release}"
        print(f"{name:20} {run.seconds:7.1f} {run.peak_mib:9.0f} {len(run.findings):9}")
    return 1 if any(wrong) else 0


def _checked(engines: Sequence[str], chosen: Sequence[Case]) -> dict[tuple[str, str], Checked]:
    known = pins()
    wanted = dict.fromkeys(
        (case.engine, release)
        for case in chosen
        if case.release
        for release in (case.release, case.after)
        if release in known[case.engine]
    )
    wanted |= dict.fromkeys((engine, NEWEST[engine]) for engine in engines)
    runs: dict[tuple[str, str], Checked] = {}
    for engine, release in wanted:
        print(f"checking {engine} {release}", file=sys.stderr)
        runs[engine, release] = measure(package_of(engine, release))
    return runs


def _print_cases(chosen: Sequence[Case], findings: dict[tuple[str, str], list[Finding]]) -> None:
    by_rule: Counter[str] = Counter()
    for read, title in (
        ("static", "readable from source"),
        ("partly", "only partly readable"),
        ("no", "not readable from source"),
        ("commit", "in no release, not run"),
    ):
        listed = [case for case in chosen if case.read == read]
        shown = {c.id: c.codes(findings.get((c.engine, c.release), ())) for c in listed}
        share = sum(map(bool, shown.values()))
        print(f"\nfaults {title}: {share} of {len(listed)} found")
        for case in listed:
            codes = shown[case.id]
            by_rule.update(codes)
            found = ", ".join(codes) or ("missed" if case.release else "-")
            where = f"{case.engine} {case.release or 'commit'}"
            after = _after(case, findings) if codes else ""
            print(f"  {case.id} {where:24} {found:15} {after:24} {case.fault}")
    print("\nfaults found per rule: " + ", ".join(f"{c} {n}" for c, n in sorted(by_rule.items())))


def _after(case: Case, findings: dict[tuple[str, str], list[Finding]]) -> str:
    """Whether a fault is gone where it is fixed, or still found in the newest release if it is not.

    What is against expectation stands in capitals.
    """
    later = findings.get((case.engine, case.after))
    if later is None:
        return f"{case.after} not pinned"
    still = bool(case.codes(later))
    if case.fixed:
        return f"{'STILL' if still else 'gone'} in {case.after}"
    return f"{'open' if still else 'LOST'} in {case.after}"


def _print_newest(engine: str, findings: Sequence[Finding]) -> bool:
    """Print the verdicts per rule; whether labels and findings disagree."""
    release = NEWEST[engine]
    used, unlabelled, stale = compare(findings, labels(engine, release))
    counts = Counter((label.code, label.verdict) for label in used)
    total = Counter(label.verdict for label in used)
    print(f"\n{engine} {release}: {len(findings)} findings")
    print("  rule     findings  " + "  ".join(f"{verdict:>9}" for verdict in VERDICTS))
    for code, count in sorted(Counter(str(f["code"]) for f in findings).items()):
        print(f"  {code} {count:10}  " + "  ".join(f"{counts[code, v]:9}" for v in VERDICTS))
    print(f"  all    {len(findings):10}  " + "  ".join(f"{total[v]:9}" for v in VERDICTS))
    for finding in unlabelled:
        print(
            f"  no label, or several: {finding['path']}:{finding['line']} {finding['code']} "
            f"{finding['symbol']}: {finding['message']}"
        )
    for label in stale:
        print(f"  stale label: {label.path} {label.code} {label.symbol} {label.about}")
    return bool(unlabelled or stale)


if __name__ == "__main__":
    sys.exit(main())
