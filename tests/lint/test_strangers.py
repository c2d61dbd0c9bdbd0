"""What is no backend although a name, an annotation or a neighbour suggests it."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from lint_rules.config import load_config
from lint_rules.run import check
from tests.lint.test_families import HOST, findings

BASE = {"base.py": HOST.replace("{extra}", "")}

LAYER = """
import torch
from base import AttentionImpl

class MyImpl(AttentionImpl[int]):
    def __init__(self, heads, scale):
        self.scale = scale

    def forward(self, query, output):
        return self.scale

class Layer:
    impl: AttentionImpl

def schema(function):
    return {asked}
"""


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("function.impl.infer_schema(function)", [("MLA306", "schema")]),
        ("torch.library.impl.infer_schema(function)", []),
    ],
)
def test_what_a_module_holds_is_no_backend_of_the_same_name(
    tmp_path: Path, asked: str, expected: list[tuple[str, str]]
) -> None:
    assert findings(tmp_path, {**BASE, "layer.py": LAYER.format(asked=asked)}) == expected


RUNNER = """
from base import AttentionBackend, AttentionMetadataBuilder

class OldBuilder(AttentionMetadataBuilder[int]):
    def build(self, common):
        return common

class NewBuilder:
    def build(self, common):
        return common

    def {method}(self, batch):
        return batch

class Mine(AttentionBackend):
    @staticmethod
    def get_builder_cls():
        return NewBuilder

class Runner:
    builders: list[AttentionMetadataBuilder]

    def prepare(self, batch):
        return self.builders[0].reorder(batch)
"""


@pytest.mark.parametrize(
    ("method", "expected"), [("sort", [("MLA306", "Runner.prepare")]), ("reorder", [])]
)
def test_a_class_outside_the_family_that_a_hook_hands_out_may_be_meant(
    tmp_path: Path, method: str, expected: list[tuple[str, str]]
) -> None:
    assert findings(tmp_path, {**BASE, "run.py": RUNNER.format(method=method)}) == expected


@pytest.mark.parametrize(
    ("named", "expected"), [("ImplBuilder", [("MLA306", "MyImpl.forward")]), ("Updater", [])]
)
def test_a_class_that_is_named_answers_for_its_own_method(
    tmp_path: Path, named: str, expected: list[tuple[str, str]]
) -> None:
    found = findings(
        tmp_path,
        {
            **BASE,
            "leaf.py": f"""
            from base import AttentionImpl

            class Updater:
                @staticmethod
                def build():
                    return Updater()

                def update(self, indices):
                    return indices

            class ImplBuilder:
                @staticmethod
                def build() -> AttentionImpl:
                    return MyImpl(8, 1.0)

            class MyImpl(AttentionImpl[int]):
                def __init__(self, heads, scale):
                    self.updater = {named}.build()

                def forward(self, query, output):
                    return self.updater.update(query)
            """,
        },
    )
    assert found == expected


def test_a_part_of_a_family_with_a_constructor_of_its_own_is_built_elsewhere(
    tmp_path: Path,
) -> None:
    found = findings(
        tmp_path,
        {
            **BASE,
            "leaf.py": """
            from abc import abstractmethod

            from base import AttentionBackend, AttentionImpl

            class SparseImpl(AttentionImpl[int]):
                @abstractmethod
                def __init__(self, dim, scale, heads=1, kind="decoder"):
                    raise NotImplementedError

            class MyImpl(SparseImpl):
                def __init__(self, scale, heads=1, dim=64, kind="decoder"):
                    self.scale = scale * heads * dim

                def forward(self, query, output):
                    return self.scale

            class Mine(AttentionBackend):
                @staticmethod
                def get_impl_cls():
                    return MyImpl
            """,
            "layer.py": """
            from base import AttentionBackend

            def build(backend: type[AttentionBackend], heads, scale, soft_cap):
                impl_cls = backend.get_impl_cls()
                return impl_cls(heads, scale, soft_cap)
            """,
        },
    )
    assert found == []


@pytest.mark.parametrize(
    ("otherwise", "expected"),
    [("raise TypeError(spec)", []), ("pass", [("MLA202", "Middle.build")])],
)
def test_what_a_parent_refuses_by_raising_holds_in_its_children(
    tmp_path: Path, otherwise: str, expected: list[tuple[str, str]]
) -> None:
    files = {
        **BASE,
        "leaf.py": f"""
        from base import AttentionMetadataBuilder

        class Middle(AttentionMetadataBuilder[int]):
            def __init__(self, spec, names):
                super().__init__(spec, names)
                if isinstance(spec, int):
                    self.kind = "whole"
                elif isinstance(spec, str):
                    self.kind = "named"
                else:
                    {otherwise}

            def build(self, common):
                return self.kind

        class Leaf(Middle):
            def __init__(self, spec, names, extra):
                super().__init__(spec, names)
                self.extra = extra
        """,
    }
    assert findings(tmp_path, files) == expected


@pytest.mark.parametrize(("inherits", "severity"), [(True, "error"), (False, "warning")])
def test_a_misspelt_flag_matters_where_its_reader_is_inherited(
    tmp_path: Path, inherits: bool, severity: str
) -> None:
    override = "" if inherits else "\n    def supports(self):\n        return False\n"
    text = f"""
class AttentionBackend:
    _graph_support = False

    def supports(self):
        return self._graph_support

    def plan(self, batch):
        raise NotImplementedError

class Mine(AttentionBackend):
    graph_support = True
{override}
    def plan(self, batch):
        return batch
"""
    (tmp_path / "backend.py").write_text(dedent(text), encoding="utf-8")
    report = check([tmp_path], load_config([tmp_path]))
    [found] = report.diagnostics
    assert (found.code, found.symbol, found.severity) == ("MLA306", "Mine.graph_support", severity)


@pytest.mark.parametrize(
    ("asked", "expected"), [("self.ratio > 1", []), ("self.ratio > 0", [("MLA202", "Leaf.build")])]
)
def test_a_comparison_that_the_first_value_fails_holds_where_the_second_was_stored(
    tmp_path: Path, asked: str, expected: list[tuple[str, str]]
) -> None:
    files = {
        **BASE,
        "leaf.py": f"""
        from base import AttentionMetadataBuilder

        class Leaf(AttentionMetadataBuilder[int]):
            def __init__(self, spec, names):
                super().__init__(spec, names)
                self.ratio = 1
                if spec.compressed:
                    self.ratio = spec.ratio
                    self.table = [spec.ratio]

            def build(self, common):
                if {asked}:
                    return self.table
                return common
        """,
    }
    assert findings(tmp_path, files) == expected


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("raise NotImplementedError", []),
        ("return", [("MLA202", "Leaf.build")]),
        ("if names:\n            raise NotImplementedError", [("MLA202", "Leaf.build")]),
    ],
)
def test_what_is_left_after_a_return_may_be_refused(
    tmp_path: Path, rest: str, expected: list[tuple[str, str]]
) -> None:
    leaf = f"""
from base import AttentionMetadataBuilder

class Leaf(AttentionMetadataBuilder[int]):
    def __init__(self, spec, names):
        super().__init__(spec, names)
        if spec.plain:
            self.table = spec.table
            return
        {rest}

    def build(self, common):
        return self.table
"""
    assert findings(tmp_path, {**BASE, "leaf.py": leaf}) == expected


@pytest.mark.parametrize(
    ("other", "expected"), [("raise ValueError(spec)", []), ("return", [("MLA202", "Leaf.build")])]
)
def test_the_other_branch_of_a_return_may_be_refused(
    tmp_path: Path, other: str, expected: list[tuple[str, str]]
) -> None:
    leaf = f"""
from base import AttentionMetadataBuilder

class Leaf(AttentionMetadataBuilder[int]):
    def __init__(self, spec, names):
        super().__init__(spec, names)
        if spec.plain:
            self.table = spec.table
            return
        else:
            {other}

    def build(self, common):
        return self.table
"""
    assert findings(tmp_path, {**BASE, "leaf.py": leaf}) == expected


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ("break", []),
        ("return", [("MLA202", "Leaf.build")]),
        ("for name in names:\n                    break", [("MLA202", "Leaf.build")]),
    ],
)
def test_an_endless_loop_ends_where_it_breaks(
    tmp_path: Path, way: str, expected: list[tuple[str, str]]
) -> None:
    leaf = f"""
from base import AttentionMetadataBuilder

class Leaf(AttentionMetadataBuilder[int]):
    def __init__(self, spec, names):
        super().__init__(spec, names)
        if not spec.plain:
            while True:
                names = names[1:]
                {way}
        self.table = spec.table

    def build(self, common):
        return self.table
"""
    assert findings(tmp_path, {**BASE, "leaf.py": leaf}) == expected


@pytest.mark.parametrize(
    ("kept", "expected"), [("", [("MLA306", "Layer.run")]), ("self.steps = [builder]", [])]
)
def test_a_class_that_holds_a_backend_for_each_step_may_be_meant(
    tmp_path: Path, kept: str, expected: list[tuple[str, str]]
) -> None:
    text = f"""
from base import AttentionMetadataBuilder

class Mine(AttentionMetadataBuilder[int]):
    def build(self, common):
        return common

class Steps:
    def __init__(self, builder: AttentionMetadataBuilder):
        self.first = builder
        {kept}

class Layer:
    builder: AttentionMetadataBuilder

    def run(self, step):
        return self.builder.steps[step]
"""
    assert findings(tmp_path, {**BASE, "run.py": text}) == expected


@pytest.mark.parametrize(
    ("base", "expected"),
    [("AttentionImplBase", []), ("object", [("MLA306", "Layer.run")])],
)
def test_another_part_of_the_family_may_be_meant(
    tmp_path: Path, base: str, expected: list[tuple[str, str]]
) -> None:
    text = f"""
from base import AttentionImpl, AttentionImplBase

class Dense(AttentionImpl[int]):
    def __init__(self, heads, scale):
        self.scale = scale

    def forward(self, query, output):
        return self.scale

class Sparse({base}):
    def gather(self, query):
        return query

class Layer:
    impl: AttentionImpl

    def run(self, query):
        return self.impl.gather(query)
"""
    assert findings(tmp_path, {**BASE, "run.py": text}) == expected


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [("self, common, step", []), ("self, common", [("MLA102", "Layer.run")])],
)
def test_a_call_may_fit_what_holds_a_backend_for_each_step(
    tmp_path: Path, parameters: str, expected: list[tuple[str, str]]
) -> None:
    text = f"""
from base import AttentionMetadataBuilder

class Mine(AttentionMetadataBuilder[int]):
    def build(self, common):
        return common

class Steps:
    def __init__(self, builder: AttentionMetadataBuilder):
        self.steps = [builder]

    def build({parameters}):
        return common

class Layer:
    builder: AttentionMetadataBuilder

    def run(self, common, step):
        return self.builder.build(common, step)
"""
    assert findings(tmp_path, {**BASE, "run.py": text}) == expected
