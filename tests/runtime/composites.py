"""Trees of wrappers over recording leaves, and who has to be asked what: a model of its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from mla_guard import contract_of, exposes
from mla_runtime import (
    AttentionBackend,
    ForwardBatch,
    ForwardMode,
    HybridAttnBackend,
    HybridLinearAttnBackend,
    TboAttnBackend,
    split_batch,
)
from mla_runtime.create import BACKENDS
from mla_runtime.phase import Phase, phase_of
from tests.runtime.world import FP8, World

FULL_LAYER, LINEAR_LAYER = 1, 0


class PagedOnly(AttentionBackend):
    """Like FlashAttention 3: every prefix in the absorbed form, no optional hook, no graphs."""

    needs_cpu_seq_lens = False

    def __init__(self, runner: Any) -> None:
        self.data_type = runner.dtype
        self.max_context_len = runner.model_config.context_len
        self.req_to_token_pool = runner.req_to_token_pool
        self.token_to_kv_pool = runner.token_to_kv_pool

    def init_forward_metadata_out_graph(self, forward_batch: Any, in_capture: bool = False) -> None:
        pass

    def forward_decode(
        self, q: Any, k: Any, v: Any, layer: Any, forward_batch: Any, save_kv_cache: bool = True,
        q_rope: Any = None, k_rope: Any = None,
    ) -> Any:  # fmt: skip
        return q

    def forward_extend(
        self, q: Any, k: Any, v: Any, layer: Any, forward_batch: Any, save_kv_cache: bool = True,
        q_rope: Any = None, k_rope: Any = None,
    ) -> Any:  # fmt: skip
        return q


class PlainChunks(PagedOnly):
    """Plans chunks, and knows no ``disable_flashinfer_ragged``."""

    def init_mha_chunk_metadata(self, forward_batch: Any) -> None:  # type: ignore[override]
        pass


class OwnFlags(PagedOnly):
    """Answers every attribute with an object of its own."""

    def __init__(self, runner: Any) -> None:
        for name in ("data_type", "max_context_len", "req_to_token_pool", "token_to_kv_pool"):
            setattr(self, name, object())


Leaf = Callable[[Any], AttentionBackend]
LEAVES: dict[str, Leaf] = {**BACKENDS, "paged only": PagedOnly, "plain chunks": PlainChunks}
HOOKS = tuple(contract_of(AttentionBackend).hooks)
WRAPPERS = ("hybrid linear", "hybrid attn", "tbo")
CHAINS = [(outer, *inner) for outer in WRAPPERS for inner in [(), *((w,) for w in WRAPPERS)]]
"""Every wrapper alone, and around every other and its own kind."""


@dataclass
class Node:
    """One backend of a tree; ``parts`` are what it wraps, by role."""

    backend: AttentionBackend
    kind: str
    parts: dict[str, Node] = field(default_factory=dict)
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)

    def leaves(self) -> Iterator[Node]:
        for part in self.parts.values():
            yield from part.leaves()
        if not self.parts:
            yield self


@cache
def world_of(leaf: str) -> World:
    return World(kv_dtype=FP8 if leaf == "tokenspeed_mla" else None)


@cache
def tree_of(chain: tuple[str, ...], leaf: str, mode: str = "prefill") -> Node:
    """The wrappers of ``chain`` around each other, outermost first, with leaves of one kind.

    Every leaf notes its calls and does no work; where it serves graphs, their state is there.
    """
    tree = build(chain, world_of(leaf), {**LEAVES, "flags": OwnFlags}[leaf], mode)
    for node in tree.leaves():
        _record(node)
    if tree.backend.supports_cuda_graph:
        tree.backend.init_cuda_graph_state(4, 16)
    return tree


def build(chain: tuple[str, ...], world: World, leaf: Leaf, mode: str = "prefill") -> Node:
    """The wrappers of ``chain`` around leaves that work."""
    if not chain:
        return Node(leaf(world.runner), "leaf")
    kind, rest = chain[0], chain[1:]

    def part() -> Node:
        return build(rest, world, leaf, mode)

    if kind == "hybrid linear":
        full, linear = part(), part()
        backend: AttentionBackend = HybridLinearAttnBackend(
            full.backend, linear.backend, [FULL_LAYER]
        )
        return Node(backend, kind, {"full": full, "linear": linear})
    if kind == "hybrid attn":
        prefill, decode = part(), part()
        backend = HybridAttnBackend(prefill.backend, decode.backend, mode)  # type: ignore[arg-type]
        return Node(backend, f"{kind} {mode}", {"prefill": prefill, "decode": decode})
    primary, first, second = part(), part(), part()
    backend = TboAttnBackend(primary.backend, [first.backend, second.backend])
    return Node(backend, kind, {"primary": primary, "0": first, "1": second})


def _record(leaf: Node) -> None:
    """Let a leaf note the calls of its hooks, each under its own signature."""
    for hook in HOOKS:
        if not exposes(leaf.backend, hook):
            continue

        def noted(*args: Any, _hook: str = hook, **kwargs: Any) -> None:
            leaf.calls.append((_hook, args, kwargs))

        noted.__signature__ = inspect.signature(  # type: ignore[attr-defined]
            getattr(leaf.backend, hook)
        )
        setattr(leaf.backend, hook, noted)


@dataclass(frozen=True)
class Case:
    """What is asked: about which batch, and for which layer."""

    batch: ForwardBatch
    layer: int = FULL_LAYER

    @property
    def phase(self) -> Phase:
        return phase_of(self.batch.forward_mode)


@cache
def batches(mode: ForwardMode) -> list[ForwardBatch]:
    """A batch without halves, one with, and one of its halves."""
    if mode is ForwardMode.IDLE:
        return [ForwardBatch.idle()]
    q = [1] * 3 if mode is ForwardMode.DECODE else [4] * 3
    whole = World().pass_of(mode, [40, 33, 2], q).batch
    halved = replace(whole, tbo_children=split_batch(whole))
    assert halved.tbo_children is not None
    return [whole, halved, halved.tbo_children[1]]


def served(node: Node, hook: str, case: Case) -> list[tuple[Node, ForwardBatch]]:
    """The leaves that must be asked for ``hook``, with the batch that each is asked about."""
    if node.kind == "leaf":
        return [(node, case.batch)]
    parts = _PARTS[node.kind.split()[-1] if node.kind.startswith("hybrid attn") else node.kind]
    return [
        found
        for role, batch in parts(hook, case)
        for found in served(node.parts[role], hook, replace(case, batch=batch))
    ]


Asked = list[tuple[str, ForwardBatch]]
PER_LAYER = ("forward", "forward_decode", "forward_extend")
PLANNING = (
    "init_forward_metadata",
    "init_forward_metadata_out_graph",
    "init_forward_metadata_in_graph",
)


def _linear(hook: str, case: Case) -> Asked:
    if hook in PER_LAYER:
        return [("full" if case.layer == FULL_LAYER else "linear", case.batch)]
    if hook == "update_mamba_state_after_mtp_verify":
        return [("linear", case.batch)]
    both = hook == "init_cuda_graph_state" or (
        hook in PLANNING and case.phase is not Phase.DRAFT_EXTEND
    )
    return [(role, case.batch) for role in (("full", "linear") if both else ("full",))]


def _attn(verifying: str) -> Callable[[str, Case], Asked]:
    def asked(hook: str, case: Case) -> Asked:
        if hook == "init_cuda_graph_state":
            return [("decode", case.batch), ("prefill", case.batch)]
        if hook in ("forward_decode", "get_cuda_graph_seq_len_fill_value"):
            return [("decode", case.batch)]
        if hook in ("init_mha_chunk_metadata", "merge_state"):
            return [("prefill", case.batch)]
        if hook == "update_mamba_state_after_mtp_verify":
            return [(verifying, case.batch)]
        by_phase = {Phase.DECODE: "decode", Phase.IDLE: "decode", Phase.TARGET_VERIFY: verifying}
        return [(by_phase.get(case.phase, "prefill"), case.batch)]

    return asked


def _tbo(hook: str, case: Case) -> Asked:
    alone = (
        "merge_state",
        "update_mamba_state_after_mtp_verify",
        "get_cuda_graph_seq_len_fill_value",
    )
    if hook in alone:
        return [("primary", case.batch)]
    if hook == "init_cuda_graph_state":
        return [(role, case.batch) for role in ("primary", "0", "1")]
    index = case.batch.tbo_child_index
    own = "primary" if index is None else str(index)
    halves = case.batch.tbo_children or [] if hook in PLANNING else []
    return [(own, case.batch), *((str(i), half) for i, half in enumerate(halves))]


_PARTS: dict[str, Callable[[str, Case], Asked]] = {
    "hybrid linear": _linear,
    "prefill": _attn("prefill"),
    "decode": _attn("decode"),
    "tbo": _tbo,
}
