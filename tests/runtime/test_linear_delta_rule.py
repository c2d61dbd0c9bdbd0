"""Both forms of the delta rule, the convolution and the gates against float64 written plainly."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mla_runtime import lightning_slopes
from mla_runtime.dense_reference import relative_error
from mla_runtime.linear.delta_rule import CHUNK, DeltaInputs, chunked, recurrent
from mla_runtime.linear.gates import gated_log_decay, l2_normalized
from mla_runtime.linear.sequences import Sequences
from mla_runtime.linear.short_conv import short_conv

FAMILIES = ["lightning", "gdn", "kda"]
DECAYS = ["none", "usual", "strong", "mixed"]
lens = st.lists(
    st.sampled_from([0, 1, 2, 3, CHUNK - 1, CHUNK, CHUNK + 1]) | st.integers(0, 70),
    min_size=1,
    max_size=4,
)


def inputs_of(
    family: str, tokens: int, decay: str, seed: int, heads: tuple[int, int] = (1, 2)
) -> DeltaInputs:
    """Random inputs, ``K = 5``, ``V = 3``; ``heads`` are key and value heads."""
    generator = torch.Generator().manual_seed(seed)

    def randn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    shape = tokens, heads[1], 5 if family == "kda" else 1
    log_decay = -randn(*shape).abs()
    if decay == "none":
        log_decay = torch.zeros(shape)
    elif decay == "strong":
        log_decay *= 200.0
    elif decay == "mixed":
        # Steps that erase everything between steps that keep nearly everything.
        erases = torch.rand(shape, generator=generator) < 0.2
        log_decay = torch.where(erases, -1e4, log_decay * 1e-2)
    beta = None if family == "lightning" else torch.rand(tokens, heads[1], generator=generator)
    q, k = (torch.nn.functional.normalize(randn(tokens, heads[0], 5), dim=-1) for _ in range(2))
    return DeltaInputs(q, k, randn(tokens, heads[1], 3), log_decay, beta, 0.4)


def plainly(
    x: DeltaInputs, initial: torch.Tensor, lengths: list[int]
) -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]]:
    """The recurrence of the papers, head by head, in float64; states after every token."""
    heads, shared = x.v.shape[1], x.v.shape[1] // x.k.shape[1]
    out = torch.zeros(x.v.shape, dtype=torch.float64)
    final = initial.double().clone()
    states = []
    start = 0
    for n, length in enumerate(lengths):
        for t in range(start, start + length):
            for h in range(heads):
                k = x.k[t, h // shared].double()
                state = torch.diag(x.log_decay[t, h].double().exp().expand(5)) @ final[n, h]
                if x.beta is None:
                    state = state + torch.outer(k, x.v[t, h].double())
                else:
                    b = x.beta[t, h].double()
                    state = state - b * torch.outer(k, k) @ state
                    state = state + b * torch.outer(k, x.v[t, h].double())
                final[n, h] = state
                out[t, h] = x.scale * x.q[t, h // shared].double() @ state
            states.append(final[n].clone())
        start += length
    return out, final, states


@pytest.mark.parametrize("form", ["recurrent", "chunked"])
@pytest.mark.parametrize("family", FAMILIES)
@given(lengths=lens, decay=st.sampled_from(DECAYS), seed=st.integers(0, 1 << 16))
def test_both_forms(family: str, form: str, lengths: list[int], decay: str, seed: int) -> None:
    x = inputs_of(family, sum(lengths), decay, seed)
    initial = torch.randn(len(lengths), 2, 5, 3, generator=torch.Generator().manual_seed(seed))
    sequences = Sequences.of(lengths)
    if form == "recurrent":
        out, final, _ = recurrent(x, initial, sequences)
    else:
        out, final = chunked(x, initial, sequences)
    expected, expected_final, _ = plainly(x, initial, lengths)
    assert relative_error(out, expected) <= 1e-5
    assert relative_error(final, expected_final) <= 1e-5


@pytest.mark.parametrize("chunk", [1, 2, 7, 16])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_size_of_chunk(family: str, chunk: int) -> None:
    lengths = [16, 0, 7, 33, 1]
    x = inputs_of(family, sum(lengths), "mixed", chunk, heads=(2, 4))
    initial = torch.randn(5, 4, 5, 3)
    out, final = chunked(x, initial, Sequences.of(lengths), chunk=chunk)
    expected, expected_final, _ = plainly(x, initial, lengths)
    assert relative_error(out, expected) <= 1e-5
    assert relative_error(final, expected_final) <= 1e-5


@pytest.mark.parametrize("heads", [(1, 1), (1, 3), (2, 4), (3, 3)])
@pytest.mark.parametrize("family", FAMILIES)
def test_value_heads_share_key_heads(family: str, heads: tuple[int, int]) -> None:
    x = inputs_of(family, 20, "usual", 1, heads)
    initial = torch.randn(2, heads[1], 5, 3)
    sequences = Sequences.of([13, 7])
    expected, expected_final, _ = plainly(x, initial, [13, 7])
    for out, final in (recurrent(x, initial, sequences)[:2], chunked(x, initial, sequences)):
        assert relative_error(out, expected) <= 1e-5
        assert relative_error(final, expected_final) <= 1e-5


@pytest.mark.parametrize("family", FAMILIES)
def test_every_state_is_kept_where_asked(family: str) -> None:
    lengths = [3, 1, 0]
    x = inputs_of(family, 4, "usual", 2)
    initial = torch.randn(3, 2, 5, 3)
    _, final, states = recurrent(x, initial, Sequences.of(lengths), every_state=True)
    _, _, expected = plainly(x, initial, lengths)
    assert states is not None
    assert states.shape == (3, 3, 2, 5, 3)
    assert relative_error(states[0], torch.stack(expected[:3])) <= 1e-5
    # After its last token a request's state stays.
    assert relative_error(states[1], torch.stack([expected[3]] * 3)) <= 1e-5
    assert torch.equal(states[2], initial[2].expand(3, -1, -1, -1))
    assert torch.equal(states[:, -1], final)


def test_float64_inputs_are_computed_in_float64() -> None:
    x = inputs_of("kda", 70, "usual", 3)
    precise = DeltaInputs(
        x.q.double(), x.k.double(), x.v.double(), x.log_decay.double(), x.beta, x.scale
    )
    initial = torch.randn(1, 2, 5, 3, dtype=torch.float64)
    expected, _, _ = plainly(precise, initial, [70])
    sequences = Sequences.of([70])
    for out in (recurrent(precise, initial, sequences)[0], chunked(precise, initial, sequences)[0]):
        assert out.dtype == torch.float64
        assert relative_error(out, expected) <= 1e-13


def test_what_a_padding_token_holds_is_not_read() -> None:
    """The last chunk of a request is filled up with tokens of its neighbour."""
    x = inputs_of("gdn", 40, "usual", 4)
    x.v[30:] = math.nan
    x.k[30:] = math.inf
    initial = torch.zeros(2, 2, 5, 3)
    sequences = Sequences.of([30, 10])
    expected, expected_final, _ = plainly(x, initial, [30, 10])
    for out, final in (recurrent(x, initial, sequences)[:2], chunked(x, initial, sequences)):
        assert relative_error(out[:30], expected[:30]) <= 1e-5
        assert relative_error(final[0], expected_final[0]) <= 1e-5


@given(
    lengths=st.lists(st.integers(0, 9), min_size=1, max_size=4),
    width=st.integers(1, 5),
    has_bias=st.booleans(),
)
def test_the_short_convolution(lengths: list[int], width: int, has_bias: bool) -> None:
    channels, past = 3, width - 1
    generator = torch.Generator().manual_seed(width)
    x = torch.randn(sum(lengths), channels, generator=generator)
    weight = torch.randn(channels, width, generator=generator)
    bias = torch.randn(channels, generator=generator) if has_bias else None
    windows = torch.randn(len(lengths), channels, past, generator=generator)
    out, final, every = short_conv(x, weight, bias, windows, Sequences.of(lengths))
    start = 0
    for n, length in enumerate(lengths):
        line = torch.cat([windows[n].double(), x[start : start + length].double().T], dim=1)
        for t in range(length):
            taps = line[:, t : t + width]
            value = (taps * weight.double()).sum(1) + (0.0 if bias is None else bias.double())
            assert relative_error(out[start + t], value / (1.0 + torch.exp(-value))) <= 1e-5
            assert torch.equal(every[start + t].double(), line[:, t + 1 : t + 1 + past])
        assert torch.equal(final[n].double(), line[:, length:])
        start += length


def test_slopes_are_those_of_alibi_and_fall_with_the_layer() -> None:
    first = 1.0 + 1e-5
    expected = [2.0**-1 * first, 2.0**-2 * first, 2.0**-3 * first, 2.0**-4 * first]
    assert lightning_slopes(8, 0, 3)[:4].tolist() == pytest.approx(expected, rel=1e-6)
    assert lightning_slopes(4, 1, 3).tolist() == pytest.approx(
        [2.0 ** (-2 * i) * (0.5 + 1e-5) for i in (1, 2, 3, 4)], rel=1e-6
    )
    # Six heads: the four of a power of two, then every other one of the eight.
    assert lightning_slopes(6, 0, 1).tolist() == pytest.approx(
        [2.0**-e * first for e in (2, 4, 6, 8, 1, 3)], rel=1e-6
    )
    assert lightning_slopes(1, 0, 1).tolist() == pytest.approx([2.0**-8 * first], rel=1e-6)


@pytest.mark.parametrize("arguments", [(0, 0, 1), (4, 3, 3), (4, -1, 3)])
def test_slopes_of_no_head_or_layer_are_refused(arguments: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match=r"expected at least one head and a layer index below"):
        lightning_slopes(*arguments)


def test_the_gate_of_the_decay() -> None:
    a = torch.tensor([[-3.0, 0.0, 30.0, 500.0]])
    A_log, dt_bias = torch.tensor([0.5, -1.0]), torch.tensor([0.0, 1.0, 2.0, 3.0])
    gated = gated_log_decay(a, A_log, dt_bias)
    assert gated.shape == (1, 2, 2)
    expected = [
        -math.exp(0.5) * math.log1p(math.exp(-3.0)),
        -math.exp(0.5) * math.log1p(math.exp(1.0)),
        -math.exp(-1.0) * 32.0,
        -math.exp(-1.0) * 503.0,
    ]
    assert gated.flatten().tolist() == pytest.approx(expected, rel=1e-6)
    without = gated_log_decay(a, A_log, None).flatten()
    assert without[1].item() == pytest.approx(-math.exp(0.5) * math.log(2.0), rel=1e-6)


def test_a_zero_vector_normalises_to_zero() -> None:
    x = torch.tensor([[[3.0, 4.0], [0.0, 0.0]]])
    assert l2_normalized(x).flatten().tolist() == pytest.approx([0.6, 0.8, 0.0, 0.0], abs=1e-6)


def test_negative_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match=r"lens=\[2, -1\]; expected no negative number"):
        Sequences.of([2, -1])
