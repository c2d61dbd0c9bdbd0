"""Every hook through every wrapper, nested two deep, over every backend: nothing gets lost."""

from __future__ import annotations

import inspect
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from mla_runtime import AttentionBackend, ForwardBatch, ForwardMode
from tests.runtime.composites import (
    FULL_LAYER,
    HOOKS,
    LEAVES,
    LINEAR_LAYER,
    PER_LAYER,
    WRAPPERS,
    Case,
    Node,
    PlainChunks,
    batches,
    served,
    tree_of,
)

CHAINS = [(outer, *inner) for outer in WRAPPERS for inner in [(), *((w,) for w in WRAPPERS)]]
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
