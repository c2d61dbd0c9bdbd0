"""Every hook through every wrapper, nested two deep, over every backend: nothing gets lost."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import mla_runtime
from lint_rules.chains import chains
from lint_rules.config import Config
from lint_rules.library import Library
from lint_rules.run import read_project
from lint_rules.tree import list_files
from mla_guard import HookContractError
from mla_runtime import (
    AttentionBackend,
    ForwardBatch,
    ForwardMode,
    HybridAttnBackend,
    HybridLinearAttnBackend,
    TboAttnBackend,
    TorchMLABackend,
)
from tests.runtime.composites import (
    CHAINS,
    FULL_LAYER,
    HOOKS,
    LEAVES,
    LINEAR_LAYER,
    PER_LAYER,
    WRAPPERS,
    Case,
    Node,
    PagedOnly,
    PlainChunks,
    batches,
    build,
    served,
    tree_of,
    world_of,
)
from tests.runtime.world import World

LAYERS = (FULL_LAYER, LINEAR_LAYER)
MODES = list(ForwardMode)


class Words:
    """A distinct argument; comparing two is asking for the same object."""


def arguments(hook: str, batch: ForwardBatch, layer: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A call of ``hook`` as callers make it, with every argument."""
    q, k, v = Words(), Words(), Words()
    calls: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
        "init_forward_metadata": ((batch,), {}),
        "init_forward_metadata_out_graph": ((batch, True), {}),
        "init_forward_metadata_in_graph": ((batch,), {}),
        "init_cuda_graph_state": ((4, 16), {"kv_indices_buf": Words()}),
        "get_cuda_graph_seq_len_fill_value": ((), {}),
        "init_mha_chunk_metadata": ((batch, True), {}),
        "preferred_form": ((batch,), {}),
        "merge_state": ((q, k, v, Words()), {}),
        "update_mamba_state_after_mtp_verify": ((q, k), {"model": v, "req_pool_indices": Words()}),
        "forward": ((q, k, v, layer, batch, False), {"q_rope": Words(), "a": Words()}),
        "forward_decode": ((q, k, v, layer, batch), {"q_rope": Words(), "k_rope": Words()}),
        "forward_extend": ((q, k, v, layer, batch), {"save_kv_cache": False, "k_rope": Words()}),
    }
    return calls[hook]


def bound(hook: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name, as the base declares them."""
    found = inspect.signature(getattr(AttentionBackend, hook)).bind(None, *args, **kwargs)
    found.apply_defaults()
    named = {name: value for name, value in found.arguments.items() if name != "self"}
    named.update(named.pop("kwargs", {}))
    return named


@pytest.mark.parametrize("leaf", LEAVES)
@pytest.mark.parametrize("chain", CHAINS, ids=" > ".join)
@pytest.mark.parametrize("hook", HOOKS)
def test_every_cell(hook: str, chain: tuple[str, ...], leaf: str) -> None:
    asked = 0
    for spec, mode in product(["prefill", "decode"] if "hybrid attn" in chain else [""], MODES):
        tree = tree_of(chain, leaf, spec)
        if hook == "init_cuda_graph_state" and not tree.backend.supports_cuda_graph:
            with pytest.raises(NotImplementedError, match="does not serve CUDA graphs"):
                tree.backend.init_cuda_graph_state(4, 16)
            return
        for batch, layer_id in product(batches(mode), LAYERS if hook in PER_LAYER else LAYERS[:1]):
            if hook == "forward_decode" and mode is not ForwardMode.DECODE:
                continue
            if hook == "forward_extend" and mode in (ForwardMode.DECODE, ForwardMode.IDLE):
                continue
            args, kwargs = arguments(hook, batch, SimpleNamespace(layer_id=layer_id))
            if hook == "init_forward_metadata_out_graph":
                args = batch, tree.backend.supports_cuda_graph
            for node in tree.leaves():
                node.calls.clear()
            getattr(tree.backend, hook)(*args, **kwargs)
            wanted = [
                (node, part)
                for node, part in served(tree, hook, Case(batch, layer_id))
                if hook in vars(node.backend)
            ]
            assert_asked(tree, wanted, bound(hook, args, kwargs))
            asked += len(wanted)
    assert asked > 0 or (hook == "init_mha_chunk_metadata" and leaf == "paged only")


def assert_asked(
    tree: Node, wanted: list[tuple[Node, ForwardBatch]], given: dict[str, Any]
) -> None:
    """Each of the wanted leaves was called once, with the given arguments, and no other leaf."""
    got = [(node, call) for node in tree.leaves() for call in node.calls]
    order = {id(node): place for place, node in enumerate(tree.leaves())}
    wanted = sorted(wanted, key=lambda pair: order[id(pair[0])])
    assert [id(node) for node, _ in got] == [id(node) for node, _ in wanted]
    buffers = []
    for (node, (hook, args, kwargs)), (_, batch) in zip(got, wanted, strict=True):
        received, target = bound(hook, args, kwargs), dict(given)
        if "forward_batch" in target:
            target["forward_batch"] = batch
        if hook == "init_mha_chunk_metadata" and isinstance(node.backend, PlainChunks):
            assert (args, kwargs) == ((batch,), {})
            target["disable_flashinfer_ragged"] = False
        if hook == "init_cuda_graph_state":
            buffers += [received.pop("kv_indices_buf")]
            target.pop("kv_indices_buf")
        assert received == target
    if buffers:  # one planner's: two cannot share a buffer
        assert [b for b in buffers if b is not None] == [given["kv_indices_buf"]]


def test_the_printed_table_is_what_happens() -> None:
    """``mla-guard contract --matrix mla_runtime``: a dash is never asked, every other cell is.

    The table leaves out wrappers in wrappers of their own kind.
    """
    reached = {
        (row, hook)
        for chain in CHAINS
        if len(set(chain)) == len(chain)
        for spec in ("prefill", "decode")
        for row, hook in _reached(tree_of(chain, "torch", spec))
    }
    printed = set()
    with Library(list_files([Path(mla_runtime.__file__).parent], Config()), None, 0) as library:
        project = read_project(library, Config())[1]
    for chain in chains(project.view, project.view.backends):
        row = tuple((klass.name, child) for klass, child in chain.steps)
        if chain.leaf.name == "TorchMLABackend":
            printed |= {(row, h) for h, cell in chain.cells.items() if cell != "-" and h in HOOKS}
    assert reached == printed


def _reached(tree: Node) -> Iterator[tuple[tuple[tuple[str, str], ...], str]]:
    """The leaves that some call of a hook reaches, each as the way to it through attributes."""
    ways = {id(leaf): way for leaf, way in _ways(tree)}
    for hook, mode in product(HOOKS, MODES):
        for batch, layer in product(batches(mode), LAYERS):
            for leaf, _ in served(tree, hook, Case(batch, layer)):
                yield ways[id(leaf)], hook


def _ways(node: Node) -> Iterator[tuple[Node, tuple[tuple[str, str], ...]]]:
    attributes = {
        "full": "full_attn_backend", "linear": "linear_attn_backend", "0": "children",
        "prefill": "prefill_backend", "decode": "decode_backend", "1": "children",
    }  # fmt: skip
    if not node.parts:
        yield node, ()
    for role, part in node.parts.items():
        step = type(node.backend).__name__, attributes.get(role, role)
        for leaf, way in _ways(part):
            yield leaf, (step, *way)


@pytest.mark.parametrize("chain", CHAINS, ids=" > ".join)
def test_flags_come_from_the_right_child(chain: tuple[str, ...]) -> None:
    tree = tree_of(chain, "flags")
    node = tree
    while node.parts:
        node = next(
            node.parts[role] for role in ("full", "decode", "primary") if role in node.parts
        )
    for name in ("data_type", "max_context_len", "req_to_token_pool", "token_to_kv_pool"):
        assert getattr(tree.backend, name) is getattr(node.backend, name)


@pytest.mark.parametrize("values", list(product([False, True], repeat=2)))
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_needs_are_joined_and_capabilities_shared(wrapper: str, values: tuple[bool, bool]) -> None:
    def child(value: bool) -> AttentionBackend:
        backend = PagedOnly(world_of("torch").runner)
        backend.needs_cpu_seq_lens = backend.supports_cuda_graph = value
        return backend

    first, second = map(child, values)
    wrapped: dict[str, AttentionBackend] = {
        "hybrid linear": HybridLinearAttnBackend(first, second, [0]),
        "hybrid attn": HybridAttnBackend(first, second),
        "tbo": TboAttnBackend(first, [second, second]),
    }
    assert wrapped[wrapper].needs_cpu_seq_lens is any(values)
    assert wrapped[wrapper].supports_cuda_graph is all(values)


@pytest.mark.parametrize("children", [0, 1, 3])
def test_overlap_takes_two_children(children: int) -> None:
    backend = PagedOnly(world_of("torch").runner)
    with pytest.raises(ValueError, match=f"{children} children; expected one per micro-batch, two"):
        TboAttnBackend(backend, [backend] * children)


def test_overlap_refuses_children_that_pad_otherwise() -> None:
    class PadsWithZero(PagedOnly):
        def get_cuda_graph_seq_len_fill_value(self) -> int:
            return 0

    runner = world_of("torch").runner
    with pytest.raises(ValueError, match=r"is 1 for the primary backend and \[1, 0\] for its"):
        TboAttnBackend(PagedOnly(runner), [PagedOnly(runner), PadsWithZero(runner)])


def test_the_split_names_its_two_modes() -> None:
    backend = PagedOnly(world_of("torch").runner)
    with pytest.raises(ValueError, match="'both'; expected 'prefill' or 'decode'"):
        HybridAttnBackend(backend, backend, "both")  # type: ignore[arg-type]


def test_a_hook_of_a_child_without_a_route_is_refused_at_construction() -> None:
    class Remembers(PagedOnly):
        def forget_request(self, request: int) -> None:
            pass

    runner = world_of("torch").runner
    with pytest.raises(HookContractError, match="declares no route for forget_request") as refused:
        HybridAttnBackend(PagedOnly(runner), Remembers(runner))
    assert [d.code for d in refused.value.diagnostics] == ["MLA304"]


class Fa3Like(TorchMLABackend):
    """Computes, but has no optional hook and attends every prefix in the absorbed form."""

    supports_cuda_graph = False
    init_cuda_graph_state = AttentionBackend.init_cuda_graph_state
    init_mha_chunk_metadata = AttentionBackend.init_mha_chunk_metadata
    preferred_form = AttentionBackend.preferred_form


@pytest.mark.parametrize("mode", [m for m in MODES if m is not ForwardMode.IDLE])
@pytest.mark.parametrize("chain", CHAINS, ids=" > ".join)
def test_numbers_without_optional_hooks(chain: tuple[str, ...], mode: ForwardMode) -> None:
    world = World()
    backend = build(chain, world, Fa3Like).backend
    new = [1, 1, 1] if mode is ForwardMode.DECODE else [4, 4, 4]
    one_pass = world.pass_of(mode, [40, 33, 2], new)
    assert one_pass.error(one_pass.run(backend)) <= 1e-5
    backend.init_mha_chunk_metadata(one_pass.batch)  # callers probe; there is nothing to plan


def test_the_replay_of_a_graph_in_halves_splits_its_batch() -> None:
    tree = tree_of(("tbo",), "torch")
    whole, halved, _ = batches(ForwardMode.DECODE)
    for captured, replayed in ((halved, ["primary", "0", "1"]), (whole, ["primary"])):
        tree.backend.init_forward_metadata_out_graph(captured, in_capture=True)
        for node in tree.leaves():
            node.calls.clear()
        tree.backend.init_forward_metadata_out_graph(whole, in_capture=False)
        got = {role: node.calls[0][1][0] for role, node in tree.parts.items() if node.calls}
        assert list(got) == replayed
        if len(got) > 1:
            assert [got[r].req_pool_indices.tolist() for r in "01"] == [[0], [1, 2]]
