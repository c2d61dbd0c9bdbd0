"""What the guard costs: every figure of the README's table on it, in one run.

    python -m tests.bench.bench_guard [--rounds 15]

Ratios are to the call of the bare method, measured in turns in the same process, in processor time;
the best round of each counts, for what else the machine does only adds. A peer that is not
installed is left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mla_guard
from mla_guard import delegate, guard, hook, route, status

CALLS = 10
"""Calls per turn of the timing loop, so that the loop itself hardly counts."""


ROUND_SECONDS = 0.02


class Batch:
    """A forward batch of a mode."""

    def __init__(self, mode: str) -> None:
        self.forward_mode = mode


DECODE, PREFILL = Batch("DECODE"), Batch("EXTEND")


class Bare:
    """The hook as everybody would write it."""

    def __init__(self) -> None:
        self.workspace = object()

    def forward(self, batch: Batch, save: bool = True) -> Batch:
        """Return the batch."""
        return batch


def hierarchy(**clauses: Any) -> tuple[Any, Any]:
    """A guarded base and an implementation of its hook like that of :class:`Bare`."""

    @guard
    class Base:
        @hook(**clauses)
        def forward(self, batch: Batch, save: bool = True) -> Batch:
            raise NotImplementedError

    class Backend(Base):
        def __init__(self) -> None:
            self.workspace = object()

        def forward(self, batch: Batch, save: bool = True) -> Batch:
            return batch

    return Base, Backend


def per_call(statement: str, **names: Any) -> Callable[[], float]:
    """A measurement of ``statement`` in nanoseconds, to be taken in turns with others."""
    code = "\n".join([statement] * CALLS)
    timer = timeit.Timer(code, timer=time.process_time, globals={**names, "batch": DECODE})
    timer.timeit(200)
    number = max(20, int(ROUND_SECONDS / (timer.timeit(200) / 200)))
    return lambda: timer.timeit(number) / number / CALLS * 1e9


def ratios(rounds: int, baseline: tuple[str, Any], cases: dict[str, tuple[str, Any]]) -> None:
    """Print each case's time and its ratio to the baseline."""
    measures = {"": per_call(baseline[0], x=baseline[1])}
    measures |= {name: per_call(code, x=value) for name, (code, value) in cases.items()}
    best = dict.fromkeys(measures, float("inf"))
    for _ in range(rounds):
        for name, measure in measures.items():
            best[name] = min(best[name], measure())
    for name in cases:
        print(f"{name:<62}{best[name]:>9.1f} ns {best[name] / best['']:>8.2f}")


def verified() -> Any:
    """An instance whose class and clauses are verified."""
    _, cls = hierarchy(requires="workspace")
    instance = cls()
    instance.forward(DECODE)
    assert status(instance).installed == ()
    return instance


def beside_an_unverified_parent() -> Any:
    """A verified instance of a class whose parent has instances that are not."""
    _, parent = hierarchy(requires="workspace")
    child = type("Child", (parent,), {})
    beside_an_unverified_parent.kept = parent()  # type: ignore[attr-defined]
    instance = child()
    instance.forward(DECODE)
    return instance


def stored_before() -> Any:
    """A bound method stored before the first call."""
    _, cls = hierarchy(requires="workspace")
    stored = cls().forward
    stored(DECODE)
    return stored


def armed() -> Any:
    """An instance that has seen decode only, with a clause for prefill."""
    _, cls = hierarchy(requires="workspace", phase="prefill")
    instance = cls()
    instance.forward(DECODE)
    assert status(instance).installed == ("forward",)
    return instance


def beside_an_armed_instance() -> Any:
    """A verified instance while another one of its class waits for its prefill."""
    _, cls = hierarchy(requires="workspace", phase="prefill")
    instance, beside_an_armed_instance.kept = cls(), cls()  # type: ignore[attr-defined]
    instance.forward(PREFILL)
    return instance


def guard_cases(rounds: int) -> None:
    print(f"{'hook call, against the bare method':<62}{'time':>12}{'ratio':>9}")
    ratios(
        rounds,
        ("x.forward(batch)", Bare()),
        {
            "bare method again (noise)": ("x.forward(batch)", Bare()),
            "guarded, after the first call": ("x.forward(batch)", verified()),
            "the same, its parent's instances not verified yet": (
                "x.forward(batch)",
                beside_an_unverified_parent(),
            ),
            "bound method stored before the first call": ("x(batch)", stored_before()),
            "still armed: decode calls, a prefill clause waits": ("x.forward(batch)", armed()),
            "verified, another instance of the class is still armed": (
                "x.forward(batch)",
                beside_an_armed_instance(),
            ),
            **peers(),
        },
    )


def wrapper_cases(rounds: int) -> None:
    print(f"\n{'wrapper, against the bare call of the inner method':<62}{'time':>12}{'ratio':>9}")
    ratios(
        rounds,
        ("x.forward(batch)", Bare()),
        {
            "the bare method, bound and stored": ("x(batch)", Bare().forward),
            "route, bound at construction": ("x(batch)", route(verified(), "forward")),
            "fn = getattr(inner, name, None), then fn(batch)": (
                "fn = getattr(x, 'forward', None)\nif fn is not None: fn(batch)",
                Bare(),
            ),
        },
    )
    print(f"\n{'wrapper, against getattr with default and its call':<62}{'time':>12}{'ratio':>9}")
    ratios(
        rounds,
        ("fn = getattr(x, 'forward', None)\nif fn is not None: fn(batch)", Bare()),
        {
            "delegate(inner, 'forward', batch)": (
                "x[0](x[1], 'forward', batch)",
                (delegate, verified()),
            ),
            "delegate that drops an optional argument": (
                "x[0](x[1], 'forward', batch, flag=True)",
                (delegate, _narrow()),
            ),
        },
    )


def _narrow() -> Any:
    @guard
    class Base:
        @hook(optional_arguments="flag")
        def forward(self, batch: Batch, *, flag: bool = False) -> Batch:
            raise NotImplementedError

    class Narrow(Base):
        def forward(self, batch: Batch) -> Batch:  # type: ignore[override]
            return batch

    return Narrow()


def peers() -> dict[str, tuple[str, Any]]:
    """The same hook under other libraries, where they are installed."""
    cases: dict[str, tuple[str, Any]] = {}
    if _installed("pluggy"):
        import pluggy

        spec, impl = pluggy.HookspecMarker("bench"), pluggy.HookimplMarker("bench")

        class Spec:
            @spec(firstresult=True)
            def forward(self, batch: Batch, save: bool) -> Batch:
                raise NotImplementedError

        class Plugin:
            @impl
            def forward(self, batch: Batch, save: bool) -> Batch:
                return batch

        manager = pluggy.PluginManager("bench")
        manager.add_hookspecs(Spec)
        manager.register(Plugin())
        code = "x.forward(batch=batch, save=True)"
        cases[f"pluggy {pluggy.__version__}: manager.hook.forward(...)"] = (code, manager.hook)
    if _installed("beartype"):
        import beartype

        made: Any = type("B", (), {"forward": beartype.beartype(Bare.forward)})
        cases[f"beartype {beartype.__version__}"] = ("x.forward(batch)", made())
    if _installed("typeguard"):
        import typeguard

        made = type("T", (), {"forward": typeguard.typechecked(Bare.forward)})
        cases["typeguard"] = ("x.forward(batch)", made())
    if _installed("icontract"):
        import icontract

        checked = icontract.require(lambda self: hasattr(self, "workspace"))(Bare.forward)
        made = type("I", (), {"forward": checked, "workspace": object()})
        cases["icontract: require that the attribute exists"] = ("x.forward(batch)", made())
    if _installed("zope.interface"):
        from zope.interface import Interface, implementer
        from zope.interface.verify import verifyObject

        class IForward(Interface):  # type: ignore[misc]
            def forward(batch: Batch, save: bool = True) -> Batch:  # type: ignore[empty-body]
                """Return the batch."""

        cls = implementer(IForward)(type("Z", (Bare,), {}))
        cases["zope.interface: verifyObject on every call"] = (
            "x[0](x[1], x[2]); x[2].forward(batch)",
            (verifyObject, IForward, cls()),
        )
    return cases


def _installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def first_calls() -> None:
    def microseconds(make: Callable[[], Callable[[], object]]) -> float:
        taken = []
        for _ in range(50):
            call = make()
            begin = time.perf_counter()
            call()
            taken.append((time.perf_counter() - begin) * 1e6)
        return statistics.median(taken)

    def of_a_class() -> Callable[[], object]:
        _, cls = hierarchy(requires="workspace")
        instance = cls()
        return lambda: instance.forward(DECODE)

    _, known = hierarchy(requires="workspace")
    known().forward(DECODE)

    def of_an_instance() -> Callable[[], object]:
        instance = known()
        return lambda: instance.forward(DECODE)

    bare = Bare
    print(f"\n{'once':<62}{'median':>12}")
    print(f"{'first call of a class, with a clause':<62}{microseconds(of_a_class):>9.1f} µs")
    print(f"{'first call of a further instance':<62}{microseconds(of_an_instance):>9.1f} µs")
    print(f"{'making an instance':<62}{microseconds(lambda: known):>9.1f} µs")
    print(f"{'making an instance of the bare class':<62}{microseconds(lambda: bare):>9.1f} µs")


def switched_off(rounds: int) -> None:
    """``MLA_GUARD=off`` is read once, so it takes a process of its own."""
    if os.environ.get("MLA_GUARD") == "off":
        _, cls = hierarchy(requires="workspace")
        ratios(
            rounds,
            ("x.forward(batch)", Bare()),
            {"MLA_GUARD=off": ("x.forward(batch)", cls())},
        )
        return
    command = [sys.executable, "-m", "tests.bench.bench_guard", "--off", "--rounds", str(rounds)]
    environment = {**os.environ, "MLA_GUARD": "off"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    print(done.stdout, end="")


def import_time() -> None:
    """Compiled once, as an installed package is; from then on read from the cache."""
    taken = []
    loaded: set[str] = set()
    with tempfile.TemporaryDirectory() as cache:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        # Without site: what the environment loads at every start is none of the package's.
        command = [sys.executable, "-S", "-X", f"pycache_prefix={cache}", "-X", "importtime"]
        for _ in range(16):
            done = subprocess.run(
                [*command, "-c", "import mla_guard"],
                cwd=Path(mla_guard.__file__).parents[1],
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            )
            rows = re.findall(r"\| +(\d+) \| +(\S+)$", done.stderr, re.M)
            taken.append(int(rows[-1][0]) / 1000)
            loaded = {name.partition(".")[0] for _, name in rows}
    foreign = {name for name in loaded if _installed(name)} - sys.stdlib_module_names
    foreign -= {"mla_guard"}
    print(f"{'import mla_guard, cumulative (best of 15, then median)':<62}{min(taken[1:]):>9.1f} ms"
          f"{statistics.median(taken[1:]):>9.1f}")  # fmt: skip
    said = ", ".join(sorted(foreign)) or "none"
    print(f"{'modules beyond the standard library that it loads':<62}{said:>9}")


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--off", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.off:
        switched_off(arguments.rounds)
        return 0
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores")
    guard_cases(arguments.rounds)
    switched_off(arguments.rounds)
    wrapper_cases(arguments.rounds)
    first_calls()
    import_time()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
