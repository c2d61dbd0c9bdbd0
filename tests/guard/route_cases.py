"""A wrapper whose declared routes hold, and how they may not: faults for guard and linter."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["CASES", "EXPECTED_ENTRY", "SOURCE", "Case", "source_with"]

SOURCE = """\
from typing import ClassVar

from mla_guard import Routes, delegate, exposes, guard, hook, route


@guard(flags={"needs_lens": "any", "captures": "all", "dtype": "same"})
class AttentionBackend:
    needs_lens: bool = True
    captures = False
    page_size: int

    def plan(self, batch):
        raise NotImplementedError

    @hook(optional=True, optional_arguments="ragged")
    def chunk(self, batch, ragged=False):
        raise NotImplementedError

    def preferred_form(self, batch):
        return "absorbed"

    @property
    def depth(self):
        return 1

    @hook
    def _planned(self):
        return None

    def _helper(self):
        return None

    def forward(self, q):
        return self.forward_decode(q)

    def forward_decode(self, q):
        raise NotImplementedError


class Leaf(AttentionBackend):
    dtype = "bf16"
    kernel = "paged"

    def __init__(self):
        self.page_size = 64
        self.workspace = []

    def plan(self, batch):
        self.batch = batch

    def chunk(self, batch):
        self.chunks = batch

    def forward_decode(self, q):
        return q

    def _launch(self):
        return self.kernel


class Phases(AttentionBackend):
    __mla_routes__: ClassVar[Routes] = {
        "needs_lens": {"any": ("prefill", "decode")},
        "captures": {"all": ["prefill", "decode"]},
        "dtype": "decode",
        "page_size": {"same": ("prefill", "decode")},
        "plan": {"decode": "decode", "extend": "prefill", "verify": ("decode", "prefill")},
        "chunk": "prefill",
        "preferred_form": "base",  # comments are no part of the literal
        "depth": "self",
        "_planned": "decode",
        "forward": "base",
        "forward_decode": "decode",
    }

    def __init__(self, prefill: AttentionBackend, decode: AttentionBackend):
        self.prefill, self.decode = prefill, decode
        self.dtype = prefill.dtype
        self.page_size = 64
        self.by_phase = {"extend": self.prefill, "decode": decode}
        self.decode_forward = route(decode, "forward_decode")

    @property
    def needs_lens(self):
        return any(inner.needs_lens for inner in self._all())

    @property
    def captures(self):
        return self.prefill.captures and self.decode.captures

    @property
    def depth(self):
        return 2

    def _all(self):
        return [self.prefill, self.decode]

    def plan(self, batch):
        self.by_phase["decode"].plan(batch)

    def chunk(self, batch, ragged=False):
        if exposes(self.prefill, "chunk"):
            delegate(self.prefill, "chunk", batch, ragged)

    def _planned(self):
        return self.decode._planned()

    def forward_decode(self, q):
        return self.decode_forward(q)


class Deeper(Phases):
    __mla_routes__ = {"preferred_form": "self"}

    def preferred_form(self, batch):
        return "heads"


def build():
    return Phases(Leaf(), Leaf())


def build_nested():
    return Phases(Deeper(Leaf(), Leaf()), Leaf())
"""

EXPECTED_ENTRY = (
    "a child's attribute, a tuple of them, {phase: attributes}, "
    "{'any' or 'all' or 'same': attributes}, 'self' or 'base'"
)


class Case(NamedTuple):
    """One fault: what is replaced in the source, and what both say of ``Phases``, sorted."""

    id: str
    replaced: tuple[tuple[str, str], ...]
    messages: tuple[str, ...]


def _entry(id: str, old: str, new: str, *messages: str) -> Case:
    return Case(id, ((old, new),), messages)


def _is_no_route(name: str, written: str, shown: str) -> Case:
    return _entry(
        f"{shown} is no route",
        '"chunk": "prefill",',
        f'"{name}": {written},',
        f"Phases.__mla_routes__['{name}'] is {shown}, expected {EXPECTED_ENTRY}",
    )


CASES = (
    _is_no_route("chunk", "3", "3"),
    _is_no_route("chunk", "None", "None"),
    _is_no_route("chunk", '""', "''"),
    _is_no_route("chunk", '"a b"', "'a b'"),
    _is_no_route("chunk", "()", "()"),
    _is_no_route("chunk", '("prefill", "self")', "('prefill', 'self')"),
    _is_no_route("chunk", '{"any": "prefill", "x": "decode"}', "{'any': 'prefill', 'x': 'decode'}"),
    _is_no_route("chunk", '{"decode": 1}', "{'decode': 1}"),
    _is_no_route("chunk", '{"decode": {"a": "b"}}', "{'decode': {'a': 'b'}}"),
    _is_no_route("chunk", "{}", "{}"),
    _entry(
        "a key is no name",
        '"chunk": "prefill",',
        '"chunk": "prefill", 7: "prefill",',
        "Phases.__mla_routes__ is a dict with the key 7, expected the name of a hook, a property "
        "or a flag",
    ),
    Case(
        "no dict",
        (
            ("    __mla_routes__: ClassVar[Routes] = {", "    __mla_routes__ = [{"),
            ("    }\n\n    def __init__(self, prefill", "    }]\n\n    def __init__(self, prefill"),
        ),
        (
            "Phases.__mla_routes__ is [{'needs_lens': {'any': ('prefill', 'decode')}, "
            "'captures..., expected a dict of names to routes",
        ),
    ),
    _entry(
        "a hook of the base has no route",
        '"plan": {"decode": "decode", "extend": "prefill", "verify": ("decode", "prefill")},',
        "",
        "Phases declares no route for plan, which AttentionBackend declares",
    ),
    _entry(
        "a marked private hook has no route",
        '"_planned": "decode",',
        "",
        "Phases declares no route for _planned, which AttentionBackend declares",
    ),
    _entry(
        "a property has no route",
        '"depth": "self",',
        "",
        "Phases declares no route for depth, which AttentionBackend declares",
    ),
    _entry(
        "a flag with a value has no route",
        '"captures": {"all": ["prefill", "decode"]},',
        "",
        "Phases declares no route for captures, which AttentionBackend declares",
    ),
    _entry(
        "an annotated flag has no route",
        '"page_size": {"same": ("prefill", "decode")},',
        "",
        "Phases declares no route for page_size, which AttentionBackend declares",
    ),
    _entry(
        "a flag of the guard has no route",
        '"dtype": "decode",',
        "",
        "Phases declares no route for dtype, which AttentionBackend declares",
    ),
    _entry(
        "a hook is added to the base",
        '    def preferred_form(self, batch):\n        return "absorbed"\n',
        '    def preferred_form(self, batch):\n        return "absorbed"\n\n'
        "    def roll_back(self, steps):\n        pass\n",
        "Phases declares no route for roll_back, which AttentionBackend declares",
    ),
    _entry(
        "a hook is added to a child",
        "    def _launch(self):",
        "    def replay(self, batch):\n        pass\n\n    def _launch(self):",
        "Phases declares no route for replay, which Leaf, a class that it can hold, defines",
    ),
    _entry(
        "a property is added to a child",
        "    def _launch(self):",
        "    @property\n    def size(self):\n        return 1\n\n    def _launch(self):",
        "Phases declares no route for size, which Leaf, a class that it can hold, defines",
    ),
    _entry(
        "a marked private hook is added to a child",
        "    def _launch(self):",
        "    @hook\n    def _launch(self):",
        "Phases declares no route for _launch, which Leaf, a class that it can hold, defines",
    ),
    _entry(
        "the default of the base would win",
        '"preferred_form": "base",',
        '"preferred_form": ("prefill", "decode"),',
        "Phases routes preferred_form to self.prefill and self.decode but does not define it: "
        "silently the default of AttentionBackend instead",
    ),
    _entry(
        "its own code is not there",
        '"preferred_form": "base",',
        '"preferred_form": "self",',
        "Phases routes preferred_form to 'self' but does not define it: "
        "silently the default of AttentionBackend instead",
    ),
    _entry(
        "a flag is not stored",
        "        self.page_size = 64\n        self.by_phase",
        "        self.by_phase",
        "Phases routes page_size to same of self.prefill and self.decode but does not define it: "
        "there is none: AttributeError",
    ),
    _entry(
        "a child is lost",
        "return [self.prefill, self.decode]",
        "return [self.prefill]",
        "Phases.needs_lens never touches self.decode, which the route of needs_lens names",
    ),
    _entry(
        "every child is lost",
        "        return self.prefill.captures and self.decode.captures",
        "        return True",
        "Phases.captures never touches self.prefill and self.decode, which the route of captures "
        "names",
    ),
    Case(
        "another child serves",
        (
            ('if exposes(self.prefill, "chunk")', 'if exposes(self.decode, "chunk")'),
            ('delegate(self.prefill, "chunk"', 'delegate(self.decode, "chunk"'),
        ),
        (
            "Phases.chunk never touches self.prefill, which the route of chunk names",
            "Phases.chunk touches self.decode, which the route of chunk does not name",
        ),
    ),
    _entry(
        "a bound hook of another child serves",
        'route(decode, "forward_decode")',
        'route(prefill, "forward_decode")',
        "Phases.forward_decode never touches self.decode, which the route of forward_decode names",
        "Phases.forward_decode touches self.prefill, which the route of forward_decode does not "
        "name",
    ),
    _entry(
        "what is left to the base is replaced",
        '"_planned": "decode",',
        '"_planned": "base",',
        "Phases._planned replaces what the route of _planned leaves to AttentionBackend",
    ),
    _entry(
        "a flag is combined otherwise",
        '"needs_lens": {"any": ("prefill", "decode")},',
        '"needs_lens": {"same": ("prefill", "decode")},',
        "Phases routes needs_lens to same of self.prefill and self.decode, but AttentionBackend "
        "says that wrappers combine it by 'any'",
    ),
    _entry(
        "a flag is taken from one child",
        '"captures": {"all": ["prefill", "decode"]},',
        '"captures": ("prefill", "decode"),',
        "Phases routes captures to self.prefill and self.decode, but AttentionBackend says that "
        "wrappers combine it by 'all'",
    ),
    _entry(
        "a flag that is the same is combined",
        '"dtype": "decode",',
        '"dtype": {"any": "decode"},',
        "Phases routes dtype to any of self.decode, but AttentionBackend says that wrappers "
        "combine it by 'same'",
    ),
    _entry(
        "a route is stale",
        '"chunk": "prefill",',
        '"chunk": "prefill", "gone": "base",',
        "Phases routes gone, which neither AttentionBackend nor any backend that it can hold has",
    ),
)


def source_with(case: Case) -> str:
    """The source with the fault of ``case`` in it."""
    text = SOURCE
    for old, new in case.replaced:
        if text.count(old) != 1:
            raise ValueError(f"{case.id}: {old!r} stands {text.count(old)} times in the source")
        text = text.replace(old, new)
    return text
