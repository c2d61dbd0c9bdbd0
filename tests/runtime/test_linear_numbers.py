"""Every linear backend in every kind of pass against the whole sequence in float64."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mla_runtime import ForwardBatch, ForwardMode
from mla_runtime.dense_reference import relative_error
from tests.runtime.linear_world import FAMILIES, LAYER, LinearWorld

lengths = st.sampled_from([1, 2, 3, 4, 5, 63, 64, 65]) | st.integers(1, 40)


@pytest.mark.parametrize("family", FAMILIES)
@given(
    lens=st.lists(lengths, min_size=1, max_size=3),
    heads=st.sampled_from([(1, 1), (2, 2), (1, 3), (2, 4)]),
    width=st.integers(1, 4),
    gate=st.sampled_from([1.0, 30.0]),
    seed=st.integers(0, 1 << 16),
)
def test_a_fresh_prefill(
    family: str, lens: list[int], heads: tuple[int, int], width: int, gate: float, seed: int
) -> None:
    world = LinearWorld(family, *heads, key_size=4, width=width, gate=gate, seed=seed)
    for request, length in enumerate(lens):
        world.draw(request, length)
    outs = world.extended(world.backend(), {r: (0, n) for r, n in enumerate(lens)})
    for request, out in outs.items():
        assert relative_error(out, world.expected(request)) <= 1e-5


@pytest.mark.parametrize("family", FAMILIES)
@given(
    cuts=st.lists(st.lists(st.integers(0, 20), min_size=1, max_size=4), min_size=2, max_size=3),
    decodes=st.integers(0, 3),
    seed=st.integers(0, 1 << 16),
)
def test_a_state_is_carried_over_chunks_and_decodes(
    family: str, cuts: list[list[int]], decodes: int, seed: int
) -> None:
    """Chunks of any size, of requests that enter and leave the batch, then decodes of all."""
    world = LinearWorld(family, key_size=4, seed=seed)
    backend = world.backend()
    parts: dict[int, list[torch.Tensor]] = {r: [] for r in range(len(cuts))}
    done = dict.fromkeys(parts, 0)
    for request, sizes in enumerate(cuts):
        world.draw(request, sum(sizes) + decodes)
    for turn in range(4):
        spans = {
            r: (done[r], done[r] + sizes[turn]) for r, sizes in enumerate(cuts) if turn < len(sizes)
        }
        # Requests in another order than the last time.
        spans = dict(sorted(spans.items(), reverse=bool(turn % 2)))
        if not spans:
            break
        for request, out in world.extended(backend, spans).items():
            parts[request].append(out)
            done[request] = spans[request][1]
    for _ in range(decodes):
        for request, out in world.decoded(backend, done).items():
            parts[request].append(out)
            done[request] += 1
    for request, outs in parts.items():
        assert relative_error(torch.cat(outs), world.expected(request)) <= 1e-5


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("accepted", [0, 1, 2, 3])
def test_a_rolled_back_verify_is_as_if_never_drafted(family: str, accepted: int) -> None:
    """Request 0 accepts ``accepted`` of three draft tokens, request 1 the others' complement."""
    world = LinearWorld(family)
    backend = world.backend()
    kept = {0: accepted, 1: 3 - accepted}
    for request in kept:
        world.draw(request, 30)
    world.extended(backend, {0: (0, 12), 1: (0, 5)})
    starts = {0: 12, 1: 5}

    # The draft goes on with other tokens than the request's after the accepted ones.
    true_rows = dict(world.rows)
    for request, count in kept.items():
        mixed, a, b = (x.clone() for x in true_rows[request])
        for x in (mixed, a, b):
            x[starts[request] + count :] = 7.0
        world.rows[request] = mixed, a, b
    drafted = world.verified(backend, starts)
    world.rows = true_rows
    backend.update_mamba_state_after_mtp_verify(
        torch.tensor([kept[0] - 1, kept[1] - 1], dtype=torch.int32)
    )
    places = {r: starts[r] + count for r, count in kept.items()}
    decoded = world.decoded(backend, places)
    extended = world.extended(backend, {r: (p + 1, 30) for r, p in places.items()})
    for request, place in places.items():
        expected = world.expected(request)
        parts = torch.cat([drafted[request][: kept[request]], decoded[request], extended[request]])
        assert relative_error(parts, expected[starts[request] :]) <= 1e-5, place


@pytest.mark.parametrize("family", FAMILIES)
def test_a_verify_attends_its_whole_draft_and_commits_nothing(family: str) -> None:
    world = LinearWorld(family)
    backend = world.backend()
    world.draw(0, 20)
    world.extended(backend, {0: (0, 10)})
    conv, temporal = world.pool.conv.clone(), world.pool.temporal.clone()
    for _ in range(2):
        out = world.verified(backend, {0: 10})[0]
        assert relative_error(out, world.expected(0)[10:13]) <= 1e-5
        assert torch.equal(world.pool.conv, conv)
        assert torch.equal(world.pool.temporal, temporal)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_verify_commits_after_other_passes_were_planned(family: str) -> None:
    """The commit is of the last verify, not of the last plan."""
    world = LinearWorld(family)
    backend = world.backend()
    for request in (0, 1):
        world.draw(request, 12)
    world.extended(backend, {0: (0, 6)})
    world.verified(backend, {0: 6})
    world.extended(backend, {1: (0, 4)})
    backend.update_mamba_state_after_mtp_verify(torch.tensor([1]))
    out = world.decoded(backend, {0: 8, 1: 4})
    for request, place in ((0, 8), (1, 4)):
        assert relative_error(out[request][0], world.expected(request)[place]) <= 1e-5


@pytest.mark.parametrize("family", FAMILIES)
def test_a_commit_by_request(family: str) -> None:
    """``req_pool_indices`` names verified requests whose batch is not the last one."""
    world = LinearWorld(family)
    backend = world.backend()
    for request in (0, 1, 4):
        world.draw(request, 12)
    world.extended(backend, {0: (0, 6), 1: (0, 6), 4: (0, 6)})
    world.verified(backend, {0: 6, 4: 6})
    world.verified(backend, {1: 6})
    backend.update_mamba_state_after_mtp_verify(
        torch.tensor([2, 0]), req_pool_indices=torch.tensor([4, 0])
    )
    out = world.decoded(backend, {0: 7, 4: 9})
    for request, place in ((0, 7), (4, 9)):
        assert relative_error(out[request][0], world.expected(request)[place]) <= 1e-5


@pytest.mark.parametrize("family", FAMILIES)
def test_a_step_is_kept_in_a_slot_of_its_own_where_it_is_tracked(family: str) -> None:
    world = LinearWorld(family)
    backend = world.backend()
    for request in (0, 1):
        world.draw(request, 12)
    world.extended(backend, {0: (0, 6), 1: (0, 6)})
    [kept, untouched] = world.pool.alloc(2)
    before = world.pool.temporal[:, untouched].clone()
    world.verified(backend, {0: 6, 1: 6})
    backend.update_mamba_state_after_mtp_verify(
        torch.tensor([2, 0]),
        mamba_track_indices=torch.tensor([kept, untouched]),
        mamba_steps_to_track=torch.tensor([1, -1]),
    )
    assert torch.equal(world.pool.temporal[:, untouched], before)
    # A request that goes on from the tracked step decodes what the first one's token 8 was.
    slot = world.req_to_token.alloc_mamba_slot(5)
    world.pool.copy([kept], [slot])
    world.rows[5] = world.rows[0]
    out = world.decoded(backend, {5: 8, 0: 9, 1: 7})
    for request, source, place in ((5, 0, 8), (0, 0, 9), (1, 1, 7)):
        assert relative_error(out[request][0], world.expected(source)[place]) <= 1e-5


@pytest.mark.parametrize("family", FAMILIES)
def test_a_prefix_hit_starts_from_a_copied_state(family: str) -> None:
    world = LinearWorld(family)
    backend = world.backend()
    world.draw(0, 40)
    world.extended(backend, {0: (0, 25)})
    [kept] = world.pool.alloc()
    world.pool.copy([world.req_to_token._slot_of[0]], [kept])
    world.extended(backend, {0: (25, 40)})
    world.req_to_token.free_mamba_slot(0)

    world.draw(2, 33)
    mixed, a, b = (
        torch.cat([old[:25], new[25:]])
        for old, new in zip(world.rows[0], world.rows[2], strict=True)
    )
    world.rows[2] = mixed, a, b
    world.pool.copy([kept], [world.req_to_token._slot_of[2]])
    out = world.extended(backend, {2: (25, 33)})[2]
    assert relative_error(out, world.expected(2)[25:]) <= 1e-5


@pytest.mark.parametrize("family", FAMILIES)
def test_a_request_without_prefix_starts_from_zero_in_a_used_slot(family: str) -> None:
    world = LinearWorld(family)
    backend = world.backend()
    world.pool.temporal.fill_(math.nan)
    world.pool.conv.fill_(math.nan)
    world.draw(0, 4)
    first = world.decoded(backend, {0: 0})[0]
    then = world.extended(backend, {0: (1, 4)})[0]
    assert relative_error(torch.cat([first, then]), world.expected(0)) <= 1e-5


@pytest.mark.parametrize("family", FAMILIES)
def test_requests_without_new_tokens_keep_their_states(family: str) -> None:
    world = LinearWorld(family)
    backend = world.backend()
    for request in (0, 1):
        world.draw(request, 9)
    world.extended(backend, {0: (0, 5), 1: (0, 5)})
    slot = world.req_to_token._slot_of[1]
    before = world.pool.temporal[:, slot].clone()
    # An engine that says 0 tokens before and 0 now must not clear the state either.
    world.extended(backend, {0: (5, 8), 1: (0, 0)})
    assert torch.equal(world.pool.temporal[:, slot], before)
    out = world.decoded(backend, {0: 8, 1: 5})
    for request, place in ((0, 8), (1, 5)):
        assert relative_error(out[request][0], world.expected(request)[place]) <= 1e-5


@pytest.mark.parametrize("mode", [ForwardMode.DECODE, ForwardMode.TARGET_VERIFY])
@pytest.mark.parametrize("family", FAMILIES)
def test_padding_rows_disturb_no_state(family: str, mode: ForwardMode) -> None:
    """They name request 0, whose state is its own, and hold whatever memory held."""
    world = LinearWorld(family)
    backend = world.backend()
    for request in (0, 1):
        world.draw(request, 12)
    world.extended(backend, {0: (0, 5), 1: (0, 9)})
    tokens = 1 if mode is ForwardMode.DECODE else 3
    if mode is ForwardMode.DECODE:
        batch = ForwardBatch.decode([0, 1, 0, 0], [6, 10, 1, 1], [7, 8, 0, 0])
    else:
        slots = [7] * 6 + [0] * 6
        batch = ForwardBatch.target_verify([0, 1, 0, 0], [5, 9, 1, 1], 3, slots)
    arguments = world.inputs({0: (5, 5 + tokens), 1: (9, 9 + tokens)})
    for name in {"mixed_qkv", "a", "b"} & set(arguments):
        padding = torch.full_like(arguments[name], math.nan)
        arguments[name] = torch.cat([arguments[name], padding])
    backend.init_forward_metadata(batch)
    out = backend.forward(forward_batch=batch, **arguments)
    assert relative_error(out[:tokens], world.expected(0)[5 : 5 + tokens]) <= 1e-5
    assert relative_error(out[tokens : 2 * tokens], world.expected(1)[9 : 9 + tokens]) <= 1e-5
    if mode is ForwardMode.TARGET_VERIFY:
        backend.update_mamba_state_after_mtp_verify(torch.tensor([0, 0, 2, 2]))
    then = world.decoded(backend, {0: 6, 1: 10})
    assert relative_error(then[0][0], world.expected(0)[6]) <= 1e-5
    assert relative_error(then[1][0], world.expected(1)[10]) <= 1e-5


@pytest.mark.parametrize("family", FAMILIES)
def test_the_sink_is_written_and_never_read(family: str) -> None:
    """What padding left in slot 0, NaN perhaps, must not come back: not even in padding rows."""
    world = LinearWorld(family)
    backend = world.backend()
    world.draw(0, 3)
    world.pool.temporal[:, 0] = math.nan
    world.pool.conv[:, 0] = math.nan
    for batch in (
        ForwardBatch.decode([0, 0, 0], [9, 9, 9], [0, 0, 0]),
        ForwardBatch.target_verify([0], [9], 3, [0, 0, 0]),
    ):
        backend.init_forward_metadata(batch)
        out = backend.forward(forward_batch=batch, **world.inputs({0: (0, 3)}))
        assert bool(torch.isfinite(out).all())
    assert bool(torch.isfinite(world.pool.temporal[world.pool.index_of(LAYER)]).all())


@pytest.mark.parametrize("family", FAMILIES)
def test_projections_are_taken_apart_or_as_one(family: str) -> None:
    world = LinearWorld(family)
    world.draw(0, 9)
    batch = world.extend({0: (0, 9)})
    arguments = world.inputs({0: (0, 9)})
    q, k, v = arguments.pop("mixed_qkv").split([16, 16, 24], dim=-1)
    backend = world.backend()
    backend.init_forward_metadata(batch)
    layer = arguments.pop("layer")
    out = backend.forward(q, k, v, layer, batch, **arguments)
    assert relative_error(out, world.expected(0)) <= 1e-5


@pytest.mark.parametrize("family", FAMILIES)
def test_without_saving_the_state_stays(family: str) -> None:
    world = LinearWorld(family)
    backend = world.backend()
    world.draw(0, 9)
    world.extended(backend, {0: (0, 5)})
    before = [
        x.clone() for x in (world.pool.temporal, world.pool.conv, world.pool.intermediate_ssm)
    ]
    for batch, end in ((world.extend({0: (5, 8)}), 8), (world.verify({0: 5}), 8)):
        backend.init_forward_metadata(batch)
        out = backend.forward(
            forward_batch=batch, save_kv_cache=False, **world.inputs({0: (5, end)})
        )
        assert relative_error(out, world.expected(0)[5:end]) <= 1e-5
    after = world.pool.temporal, world.pool.conv, world.pool.intermediate_ssm
    assert all(torch.equal(x, y) for x, y in zip(before, after, strict=True))


@pytest.mark.parametrize("family", FAMILIES)
def test_layers_keep_their_states_apart(family: str) -> None:
    world = LinearWorld(family)
    world.draw(0, 9)
    world.extended(world.backend(), {0: (0, 9)})
    other = world.pool.index_of(1)
    assert world.pool.index_of(LAYER) == 1 - other
    assert not world.pool.temporal[other].any()
    assert world.pool.temporal[1 - other].any()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_16_bit_models_keep_a_float32_state(family: str, dtype: torch.dtype) -> None:
    world = LinearWorld(family, dtype=dtype)
    backend = world.backend()
    world.draw(0, 70)
    out = [world.extended(backend, {0: (0, 60)})[0]]
    out += [world.decoded(backend, {0: place})[0] for place in range(60, 70)]
    assert {x.dtype for x in out} == {dtype}
    assert world.pool.temporal.dtype == torch.float32
    assert world.pool.conv.dtype == dtype
    assert relative_error(torch.cat(out), world.expected(0)) <= 1e-2


@pytest.mark.parametrize("family", FAMILIES)
def test_idle_and_empty_batches(family: str) -> None:
    world = LinearWorld(family)
    backend = world.backend()
    world.draw(0, 4)
    world.extended(backend, {0: (0, 2)})
    before = world.pool.temporal.clone()
    empty = {**world.inputs({0: (0, 0)})}
    for batch in (ForwardBatch.idle(), ForwardBatch.extend([], [], [], []), world.decode({})):
        backend.init_forward_metadata(batch)
        assert backend.forward_metadata is None
        assert backend.forward(forward_batch=batch, **empty).shape == (0, 24)
    padded = ForwardBatch.decode([0, 0], [1, 1], [0, 0])
    padded.forward_mode = ForwardMode.IDLE
    backend.init_forward_metadata(padded)
    out = backend.forward(forward_batch=padded, **world.inputs({0: (0, 2)}))
    assert torch.equal(out, torch.zeros(2, 24))
    assert torch.equal(world.pool.temporal, before)
