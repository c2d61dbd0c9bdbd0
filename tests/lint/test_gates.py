"""What keeps a caller and a backend apart, so that nothing is wrong between them."""

from __future__ import annotations

from pathlib import Path

from tests.lint.test_families import findings

BASE = """
class AttentionBackend:
    supports_tree = False
    can_verify = False

    def __init__(self, runner):
        self.runner = runner

    def forward(self, q):
        raise NotImplementedError

    def validate(self):
        return

    def verify(self, batch):
        raise NotImplementedError

    def parts(self) -> tuple["AttentionBackend", ...]:
        return (self,)

    def get_config(self):
        return None
"""

LEAVES = """
from base import AttentionBackend

class A(AttentionBackend):
    supports_tree = True
    can_verify = True

    def forward(self, q):
        return q

    def validate(self):
        self.checked = True

    def verify(self, batch):
        self.batch = batch

class B(AttentionBackend):
    supports_tree = True
    can_verify = True

    def forward(self, q):
        return q

    def validate(self):
        self.checked = True

    def verify(self, batch):
        self.batch = batch

class C(AttentionBackend):
    def forward(self, q):
        return q

class D(AttentionBackend):
    supports_tree = True
    can_verify = True

    def forward(self, q):
        return q

    def validate(self):
        self.checked = True

    def verify(self, batch):
        self.batch = batch
"""

WRAPPERS = """
from base import AttentionBackend
from leaves import C

class Twice(AttentionBackend):
    def __init__(self, inner: AttentionBackend):
        self.inner = inner

    def forward(self, q):
        return self.inner.forward(q)

class Routed(AttentionBackend):
    def __init__(self, dense: AttentionBackend, sparse: {sparse}):
        self.dense = dense
        self.sparse = sparse

    def forward(self, q):
        return self.dense.forward(self.sparse.forward(q))
"""

RUNNER = """
from base import AttentionBackend
from config import get_config
from leaves import A, B, C, D
from wrappers import Routed, Twice

def build(name):
    if name == "c":
        return C(None)
    backend = {{"a": A, "b": B, "d": D}}[name](None)
    if get_config().twice:
        backend = Twice(backend)
    return backend

class Runner:
    def __init__(self, attn_backend: AttentionBackend):
        self.attn_backend = attn_backend

    def run(self, batch):
        {body}
"""

CONFIG = "def get_config():\n    return None\n"


def found(
    top: Path,
    body: str,
    *,
    wrappers: str = WRAPPERS.format(sparse="AttentionBackend"),
    leaves: str = LEAVES,
) -> set[tuple[str, str]]:
    files = {
        "base.py": BASE,
        "leaves.py": leaves,
        "wrappers.py": wrappers,
        "config.py": CONFIG,
        "runner.py": RUNNER.format(body=body),
    }
    return set(findings(top, files))


READ = "return batch if self.attn_backend.supports_tree else None"


def test_a_flag_that_a_wrapper_hides_is_found(tmp_path: Path) -> None:
    assert found(tmp_path, READ) == {
        ("MLA302", "Twice.supports_tree"),
        ("MLA302", "Routed.supports_tree"),
    }


def test_a_flag_that_the_caller_asserts_is_refused_in_words(tmp_path: Path) -> None:
    body = "assert self.attn_backend.supports_tree\n        return batch"
    assert found(tmp_path, body) == set()


def test_a_caller_under_the_opposite_of_what_a_wrapper_is_built_under(tmp_path: Path) -> None:
    body = f"if get_config().twice:\n            return None\n        {READ}"
    assert found(tmp_path, body) == {("MLA302", "Routed.supports_tree")}


def test_a_silent_hook_that_the_one_leaf_inside_does_not_have_either(tmp_path: Path) -> None:
    body = "self.attn_backend.validate()"
    twice, routed = ("MLA301", "Twice.validate"), ("MLA301", "Routed.validate")
    assert found(tmp_path / "either", body) == {twice, routed}
    one = WRAPPERS.format(sparse="C")
    assert found(tmp_path / "one", body, wrappers=one) == {twice}


def test_a_raising_hook_behind_a_flag_that_every_implementation_sets(tmp_path: Path) -> None:
    body = (
        "return batch if self.attn_backend.can_verify else None\n\n"
        "    def late(self, batch):\n        self.attn_backend.verify(batch)"
    )
    flags = {("MLA302", "Twice.can_verify"), ("MLA302", "Routed.can_verify")}
    assert found(tmp_path / "all", body) == flags  # the flag says no, so that nobody calls
    some = LEAVES.replace("    can_verify = True\n", "", 1)
    assert found(tmp_path / "some", body, leaves=some) == {
        ("MLA301", "Twice.verify"),
        ("MLA301", "Routed.verify"),
        ("MLA305", "Runner.late"),
    }


def test_what_a_wrapper_hands_out_is_not_the_wrapper(tmp_path: Path) -> None:
    body = "for part in self.attn_backend.parts():\n            print(part.supports_tree)"
    opened = WRAPPERS.format(sparse="AttentionBackend").replace(
        "    def forward", "    def parts(self):\n        return {0}\n\n    def forward"
    )
    one, two = opened.split("class Routed")
    opened = one.format("(self.inner,)") + "class Routed" + two.format("self.dense, self.sparse")
    assert found(tmp_path, body, wrappers=opened) == set()


def test_a_helper_that_a_class_picks_itself_is_one_that_fits(tmp_path: Path) -> None:
    leaves = LEAVES + (
        "\n    def plan(self, batch, gate):\n        return gate\n"
        "\nclass E(AttentionBackend):\n"
        "    def __init__(self, runner, helper: AttentionBackend):\n"
        "        self.helper = {0}\n\n"
        "    def forward(self, q):\n        return self.helper.plan(q)\n"
    )
    base = BASE + "\n    def plan(self, batch):\n        return batch\n"
    for value, expected in (("helper", True), ("pick(runner, kind='dense')", False)):
        top = tmp_path / value[:4]
        files = {
            "base.py": base + "\ndef pick(runner, kind) -> AttentionBackend:\n    return runner\n",
            "leaves.py": "from base import pick\n" + leaves.format(value),
        }
        assert (("MLA102", "E.forward") in findings(top, files)) is expected
