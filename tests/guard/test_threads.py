"""64 threads race for the first calls of 100 classes."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import mla_guard.judge as judge_module
from mla_guard import HookCallError, guard, hook, status

CLASSES, THREADS = 100, 64


@pytest.fixture(autouse=True)
def _eager_switching() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_every_class_and_instance_is_verified_once_and_every_body_runs_once_per_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged: Counter[str] = Counter()
    judge = judge_module.class_breaches

    def counted(cls: type) -> Any:
        judged[cls.__name__] += 1
        return judge(cls)

    monkeypatch.setattr("mla_guard.first_call.class_breaches", counted)
    checked: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    ran: Counter[str] = Counter()

    def assumed(self: Any) -> bool:
        checked[type(self).__name__] += 1
        return True

    def ensured(self: Any, result: str) -> bool:
        kept[type(self).__name__] += 1
        return result == type(self).__name__

    @guard
    class Base:
        @hook(assumes=assumed, ensures=ensured)
        def run(self, x: int) -> str:
            raise NotImplementedError

    def run(self: Any, x: int) -> str:
        with self.lock:
            ran[type(self).__name__] += 1
        return type(self).__name__

    names = [f"C{i}" for i in range(CLASSES)]
    classes = [type(name, (Base,), {"run": run, "lock": threading.Lock()}) for name in names]
    instances = [cls() for cls in classes]
    start = threading.Barrier(THREADS)
    wrong: list[object] = []

    def work(number: int) -> None:
        start.wait()
        for step in range(CLASSES):
            index = (step * 7 + number) % CLASSES
            if instances[index].run(step) != names[index]:
                wrong.append((number, index))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert ran == Counter(dict.fromkeys(names, THREADS))
    assert judged == checked == kept == Counter(dict.fromkeys(names, 1))
    assert [status(i).verified for i in instances] == [True] * CLASSES
    assert [vars(cls)["run"] for cls in classes] == [run] * CLASSES


def test_every_racing_call_of_a_broken_class_is_refused_and_no_body_runs() -> None:
    ran: list[int] = []

    @guard
    class Base:
        def run(self, x: int) -> None:
            raise NotImplementedError

    class Bad(Base):
        def run(self, x: int, y: int) -> None:  # type: ignore[override]
            ran.append(x)

    bad: Any = Bad()
    start = threading.Barrier(THREADS)
    refused: Counter[str] = Counter()
    lock = threading.Lock()

    def work() -> None:
        start.wait()
        for _ in range(5):
            try:
                bad.run(1, 2)
            except HookCallError as error:
                with lock:
                    refused[error.diagnostics[0].code] += 1

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (refused, ran) == (Counter({"MLA101": THREADS * 5}), [])


def test_instances_made_and_dropped_while_others_are_called() -> None:
    @guard
    class Base:
        @hook(requires="ready")
        def run(self, x: int) -> int:
            raise NotImplementedError

    class Good(Base):
        def __init__(self) -> None:
            self.ready = True

        def run(self, x: int) -> int:
            return x

    original = Good.__dict__["run"]
    start = threading.Barrier(8)
    wrong: list[int] = []

    def work() -> None:
        start.wait()
        for i in range(200):
            good = Good()
            if i % 3 and good.run(i) != i:
                wrong.append(i)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert status(Good).armed == ()
    assert vars(Good)["run"] is original
