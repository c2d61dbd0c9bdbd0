"""What linear backends and their pools refuse, in which words."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
import torch

from mla_guard import HookContractError, verify
from mla_runtime import (
    AttentionBackend,
    ForwardBatch,
    HookRefusedError,
    HybridReqToTokenPool,
    LinearAttentionLayer,
    LinearAttnBackend,
    LinearStatePool,
    LinearStateShape,
    ReqToTokenPool,
)
from mla_runtime.batch import VerifyInput
from tests.runtime.linear_world import FAMILIES, LinearWorld
from tests.runtime.world import SMALL


def started(family: str = "gdn", tokens: int = 6) -> tuple[LinearWorld, LinearAttnBackend]:
    world = LinearWorld(family)
    world.draw(0, tokens)
    return world, world.backend()


@pytest.mark.parametrize("cls", [LinearAttnBackend, *FAMILIES.values()])
def test_the_classes_keep_the_contract(cls: type[LinearAttnBackend]) -> None:
    verify(cls)
    backend = LinearWorld("gdn").backend()
    assert (backend.data_type, backend.max_context_len, backend.token_to_kv_pool) == (None,) * 3


def test_a_runner_without_states() -> None:
    world = LinearWorld("gdn")
    world.runner.req_to_token_pool = ReqToTokenPool(4, 16)
    words = (
        "GDNAttnBackend needs a HybridReqToTokenPool, whose mamba_pool holds the states; the "
        "runner has a ReqToTokenPool"
    )
    with pytest.raises(ValueError, match=words):
        world.backend()


@pytest.mark.parametrize("family", FAMILIES)
def test_draft_extend_is_refused_by_name_wherever_it_comes(family: str) -> None:
    world, backend = started(family)
    backend.init_cuda_graph_state(4, 4)
    batch = ForwardBatch.draft_extend([0], [3], [2], [7, 8])
    for hook, call in (
        ("init_forward_metadata", lambda: backend.init_forward_metadata(batch)),
        (
            "init_forward_metadata_out_graph",
            lambda: backend.init_forward_metadata_out_graph(batch, in_capture=True),
        ),
        (
            "forward_extend",
            lambda: backend.forward(forward_batch=batch, **world.inputs({0: (3, 5)})),
        ),
    ):
        words = rf"{type(backend).__name__}\.{hook} is out of service: DRAFT_EXTEND_V2 is a pass of"
        with pytest.raises(HookRefusedError, match=words):
            call()


@pytest.mark.parametrize("family", FAMILIES)
def test_forward_before_planning(family: str) -> None:
    world, backend = started(family)
    words = (
        "nothing is planned, and the EXTEND batch has 6 tokens of 1 requests.*"
        "call init_forward_metadata with this batch first"
    )
    with pytest.raises(HookRefusedError, match=re.compile(words, re.DOTALL)):
        backend.forward(forward_batch=world.extend({0: (0, 6)}), **world.inputs({0: (0, 6)}))


@pytest.mark.parametrize("tokens", [4, 6])
def test_forward_with_another_number_of_tokens_than_planned(tokens: int) -> None:
    world, backend = started()
    backend.init_forward_metadata(world.extend({0: (0, 5)}))
    words = f"extend of 5 tokens of 1 requests is planned, and the EXTEND batch has {tokens} tokens"
    with pytest.raises(HookRefusedError, match=words):
        backend.forward(
            forward_batch=world.extend({0: (0, tokens)}), **world.inputs({0: (0, tokens)})
        )


def test_a_plan_of_another_kind_or_before_an_empty_batch_is_never_used() -> None:
    world, backend = started()
    world.draw(1, 6)
    backend.init_forward_metadata(world.extend({0: (0, 1)}))
    decode, inputs = world.decode({0: 0}), world.inputs({0: (0, 1)})
    with pytest.raises(HookRefusedError, match=r"extend of 1 tokens .* and the DECODE batch"):
        backend.forward(forward_batch=decode, **inputs)
    backend.init_forward_metadata(world.extend({0: (0, 1), 1: (0, 1)}))
    with pytest.raises(HookRefusedError, match="2 tokens of 2 requests is planned"):
        backend.forward(forward_batch=world.extend({0: (0, 2)}), **world.inputs({0: (0, 2)}))
    backend.init_forward_metadata(ForwardBatch.idle())
    with pytest.raises(HookRefusedError, match="nothing is planned"):
        backend.forward(forward_batch=world.extend({0: (0, 1)}), **inputs)


def test_the_other_kind_of_forward() -> None:
    world, backend = started()
    batch, inputs = world.extend({0: (0, 1)}), world.inputs({0: (0, 1)})
    backend.init_forward_metadata(batch)
    with pytest.raises(HookRefusedError, match=r"forward_decode is out .* the batch is EXTEND"):
        backend.forward_decode(forward_batch=batch, **inputs)
    decode = world.decode({0: 0})
    backend.init_forward_metadata(decode)
    with pytest.raises(HookRefusedError, match=r"forward_extend is out .* the batch is DECODE"):
        backend.forward_extend(forward_batch=decode, **inputs)


@pytest.mark.parametrize("hook", ["forward", "forward_decode", "forward_extend"])
def test_rope_parts(hook: str) -> None:
    world, backend = started()
    batch = world.decode({0: 0}) if hook != "forward_extend" else world.extend({0: (0, 1)})
    backend.init_forward_metadata(batch)
    with pytest.raises(ValueError, match="GDNAttnBackend got q_rope or k_rope; linear attention"):
        getattr(backend, hook)(
            forward_batch=batch, q_rope=torch.zeros(1, 4), **world.inputs({0: (0, 1)})
        )


@pytest.mark.parametrize(
    ("family", "change", "words"),
    [
        ("gdn", {"mixed_qkv": None}, "layer 3 got neither mixed_qkv nor all of q, k and v"),
        ("gdn", {"q": torch.zeros(1, 16)}, "layer 3 got mixed_qkv and q, k or v; expected one"),
        ("gdn", {"mixed_qkv": torch.zeros(1, 9)}, r"mixed_qkv=\(1, 9\); expected \(tokens, 56\)"),
        ("gdn", {"a": None}, r"layer 3 got a=None; expected \(1, 4\)"),
        ("gdn", {"b": torch.zeros(2, 4)}, r"layer 3 got b=\(2, 4\); expected \(1, 4\)"),
        ("kda", {"a": torch.zeros(1, 4)}, r"layer 3 got a=\(1, 4\); expected \(1, 32\)"),
        ("lightning", {"a": torch.zeros(1, 4)}, "layer 3 got a; lightning attention decays by its"),
        ("lightning", {"b": torch.zeros(1, 4)}, "layer 3 got b; lightning attention decays by its"),
        ("gdn", {"layer": None}, "GDNAttnBackend got a NoneType as layer; expected a Linear"),
        ("gdn", {"layer": SMALL.absorbed_layer(3)}, "got a AttentionLayer as layer; expected a"),
    ],
)
def test_inputs_that_are_not_the_layers(family: str, change: dict[str, Any], words: str) -> None:
    world, backend = started(family)
    batch = world.decode({0: 0})
    backend.init_forward_metadata(batch)
    with pytest.raises(ValueError, match=words):
        backend.forward(forward_batch=batch, **{**world.inputs({0: (0, 1)}), **change})


def test_projections_apart_of_other_sizes() -> None:
    world, backend = started()
    batch, inputs = world.decode({0: 0}), world.inputs({0: (0, 1)})
    backend.init_forward_metadata(batch)
    layer = inputs.pop("layer")
    del inputs["mixed_qkv"]
    q, k, v = torch.zeros(1, 16), torch.zeros(2, 16), torch.zeros(1, 24)
    with pytest.raises(ValueError, match=r"layer 3 got k=\(2, 16\); expected \(1, 16\)"):
        backend.forward(q, k, v, layer, batch, **inputs)
    with pytest.raises(ValueError, match="GDNAttnBackend got no forward_batch"):
        backend.forward(q, k, v, layer, **inputs)


@pytest.mark.parametrize(
    ("family", "missing", "words"),
    [
        ("gdn", "A_log", "layer 3 has no A_log, which its decay is made from"),
        ("kda", "A_log", "layer 3 has no A_log, which its decay is made from"),
        ("lightning", "slopes", "layer 3 has no slopes, which its decay is made from"),
    ],
)
def test_layers_without_a_decay(family: str, missing: str, words: str) -> None:
    world, backend = started(family)
    without: dict[str, Any] = {missing: None}
    world.device_layer = replace(world.layer, **without)
    with pytest.raises(ValueError, match=words):
        world.decoded(backend, {0: 0})


def test_layers_that_the_pool_does_not_hold() -> None:
    world, backend = started()
    world.device_layer = replace(world.layer, layer_id=2)
    with pytest.raises(ValueError, match=r"layer 2 has no linear state; the pool holds .*\[1, 3\]"):
        world.decoded(backend, {0: 0})
    world.device_layer = replace(world.layer, conv_weights=None, bias=None)
    with pytest.raises(ValueError, match=r"layer 3 needs LinearStateShape\(.*conv_dim=0.*holds"):
        world.decoded(backend, {0: 0})


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"num_q_heads": 4}, "4 query heads of 8 and 2 key heads of 8; expected equal ones"),
        ({"head_q_dim": 4}, "2 query heads of 4 and 2 key heads of 8; expected equal ones"),
        ({"num_v_heads": 3}, "3 value heads over 2 key heads; expected a multiple"),
        ({"activation": "gelu"}, "activation='gelu'; expected 'silu'"),
        ({"A_log": torch.zeros(2)}, "A_log of 2 elements; expected 4"),
        ({"slopes": torch.zeros(5)}, "slopes of 5 elements; expected 4"),
        ({"dt_bias": torch.zeros(5)}, "dt_bias of 5 elements; expected 4 or 32"),
        ({"bias": torch.zeros(5)}, "bias of 5 elements; expected 56"),
        ({"conv_weights": torch.zeros(5, 4)}, r"conv_weights \(5, 4\); expected \(56, conv"),
    ],
)
def test_layers_of_impossible_sizes(sizes: dict[str, Any], words: str) -> None:
    good: dict[str, Any] = dict(zip(SIZES, (3, 2, 2, 4, 8, 8, 6), strict=True))
    LinearAttentionLayer(**good)
    with pytest.raises(ValueError, match="linear-attention layer 3 has " + words):
        LinearAttentionLayer(**{**good, **sizes})


SIZES = (
    "layer_id",
    "num_q_heads",
    "num_k_heads",
    "num_v_heads",
    "head_q_dim",
    "head_k_dim",
    "head_v_dim",
)


def test_a_verify_needs_buffers_for_its_draft() -> None:
    world = LinearWorld("gdn", draft_tokens=2)
    world.draw(0, 6)
    words = "3 draft tokens are verified and the state pool keeps 2 steps"
    with pytest.raises(HookRefusedError, match=words):
        world.verified(world.backend(), {0: 2})


def test_a_draft_tree_is_refused() -> None:
    world, backend = started()
    batch = world.verify({0: 2})
    batch.spec_info = VerifyInput(3, topk=2)
    with pytest.raises(ValueError, match=r"spec_info.topk=2"):
        backend.init_forward_metadata(batch)


def test_commits_that_cannot_be() -> None:
    world, backend = started()
    steps = torch.tensor([0])
    with pytest.raises(HookRefusedError, match=r"after_mtp_verify is out .* no target verify was"):
        backend.update_mamba_state_after_mtp_verify(steps)
    world.verified(backend, {0: 2})
    with pytest.raises(ValueError, match="2 last_correct_step_indices for 1 verified requests"):
        backend.update_mamba_state_after_mtp_verify(torch.tensor([0, 0]))
    with pytest.raises(
        ValueError, match=r"steps \[3\] are to be committed; the state pool keeps 3"
    ):
        backend.update_mamba_state_after_mtp_verify(torch.tensor([3]))
    with pytest.raises(ValueError, match="belong together; one of them is None"):
        backend.update_mamba_state_after_mtp_verify(steps, mamba_track_indices=steps)


def test_a_request_without_a_state_slot_is_noticed() -> None:
    """It would share the sink with the padding, and forget everything after every pass."""
    world, backend = started()
    world.req_to_token.free_mamba_slot(0)
    with pytest.raises(HookContractError, match="gives_every_request_a_state"):
        backend.init_forward_metadata(world.extend({0: (0, 6)}))


def test_a_batch_with_other_cache_slots_than_tokens() -> None:
    world, backend = started()
    batch = world.decode({0: 0})
    batch.out_cache_loc = torch.tensor([1, 2])
    words = "DECODE batch of 1 requests has out_cache_loc of 2 tokens; expected 1"
    with pytest.raises(ValueError, match=words):
        backend.init_forward_metadata(batch)


def test_the_base_of_the_family_gates_nothing() -> None:
    world = LinearWorld("lightning")
    world.draw(0, 2)
    with pytest.raises(NotImplementedError, match="LinearAttnBackend does not say how it gates"):
        world.decoded(LinearAttnBackend(world.runner), {0: 0})
    assert issubclass(LinearAttnBackend, AttentionBackend)


def pool(size: int = 3, **options: Any) -> LinearStatePool:
    return LinearStatePool(size, [0, 2], LinearStateShape(2, 4, 4, 24, 3), **options)


def test_slots_are_handed_out_once_and_taken_back_once() -> None:
    states = pool()
    assert states.alloc(2) == [1, 2]
    assert states.available_size == 1
    states.free([1])
    assert states.alloc(2) == [1, 3]
    with pytest.raises(MemoryError, match="1 state slots are asked for, 0 of 3 are free"):
        states.alloc()
    states.free([3, 1])
    with pytest.raises(ValueError, match=r"free\(\[3\]\): slots \[3\] are not in use"):
        states.free([3])
    with pytest.raises(ValueError, match=r"free\(\[0, 2\]\): slots \[0\] are not in use"):
        states.free([0, 2])
    with pytest.raises(ValueError, match=r"free\(\[2, 2\]\): expected every slot once"):
        states.free([2, 2])
    assert states.available_size == 2


def test_copies_of_states() -> None:
    states = pool()
    states.alloc(3)
    states.conv.copy_(torch.randn(states.conv.shape))
    states.temporal.copy_(torch.randn(states.temporal.shape))
    conv, temporal = states.conv.clone(), states.temporal.clone()
    # One source for two, and one that is overwritten itself.
    states.copy([1, 1], [2, 1])
    assert torch.equal(states.conv[:, 2], conv[:, 1])
    assert torch.equal(states.temporal[:, 2], temporal[:, 1])
    for slot in (0, 1, 3):
        assert torch.equal(states.conv[:, slot], conv[:, slot])
        assert torch.equal(states.temporal[:, slot], temporal[:, slot])
    with pytest.raises(ValueError, match=r"copy\(\[1\], \[2, 3\]\): expected as many destinations"):
        states.copy([1], [2, 3])
    states.free([3])
    for src, dst in (([3], [1]), ([1], [3]), ([0], [1]), ([1], [0]), ([1], [9])):
        wrong = src if dst == [1] else dst
        with pytest.raises(ValueError, match=re.escape(f"slots {wrong} are not in use")):
            states.copy(src, dst)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"size": 0}, "size=0; expected at least one state slot"),
        ({"draft_tokens": 2}, "draft_tokens=2 needs requests, .*; it is 0"),
    ],
)
def test_pools_that_cannot_be(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        pool(**options)


def test_a_pool_names_every_layer_once() -> None:
    with pytest.raises(ValueError, match=r"layer_ids=\[1, 1\]; expected every layer once"):
        LinearStatePool(2, [1, 1], LinearStateShape(1, 2, 2))


def test_requests_and_their_slots() -> None:
    requests = HybridReqToTokenPool(4, 16, pool(2))
    assert requests.get_mamba_indices(torch.tensor([0, 3])).tolist() == [0, 0]
    assert [requests.alloc_mamba_slot(3), requests.alloc_mamba_slot(0)] == [1, 2]
    indices = requests.get_mamba_indices(torch.tensor([0, 1, 3], dtype=torch.int32))
    assert indices.tolist() == [2, 0, 1]
    assert indices.dtype == torch.int32
    with pytest.raises(ValueError, match="request 3 cannot get a state slot: it holds 1"):
        requests.alloc_mamba_slot(3)
    with pytest.raises(ValueError, match=r"request 4 cannot get .*: the pool has 4 requests"):
        requests.alloc_mamba_slot(4)
    with pytest.raises(MemoryError, match="1 state slots are asked for, 0 of 2 are free"):
        requests.alloc_mamba_slot(1)
    requests.free_mamba_slot(3)
    assert requests.get_mamba_indices(torch.tensor([3])).tolist() == [0]
    assert requests.alloc_mamba_slot(1) == 1
    with pytest.raises(ValueError, match="request 3 holds no state slot to free"):
        requests.free_mamba_slot(3)


def test_verify_buffers_for_fewer_requests_than_there_are() -> None:
    with pytest.raises(ValueError, match="verifies 3 requests; expected at least the 4 of the"):
        HybridReqToTokenPool(4, 16, pool(draft_tokens=2, requests=3))
    assert HybridReqToTokenPool(4, 16, pool(draft_tokens=2, requests=4)).size == 4
    assert pool(requests=5).intermediate_ssm.numel() == 0
