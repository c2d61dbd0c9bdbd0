"""The layer against ``DeepseekV3Attention`` of transformers, same weights, whole sequences."""

from __future__ import annotations

import pytest
import torch
from transformers import DeepseekV3Config
from transformers.models.deepseek_v3.modeling_deepseek_v3 import (
    DeepseekV3Attention,
    DeepseekV3RotaryEmbedding,
)

from mla_runtime import AttentionForm, EngineSettings, ForwardMode, MlaAttention, plan_form
from mla_runtime.create import BACKENDS
from mla_runtime.dense_reference import relative_error
from tests.runtime.world import SMALL, World

HIDDEN, PROMPTS, ROPE_THETA = 48, [5, 33, 64], 5000.0
WIDE = ["torch", "flashinfer", "trtllm_mla", "cutedsl_mla"]


def their_layer(q_lora_rank: int | None, interleave: bool) -> DeepseekV3Attention:
    config = DeepseekV3Config(
        hidden_size=HIDDEN,
        num_attention_heads=SMALL.num_attention_heads,
        num_key_value_heads=SMALL.num_attention_heads,
        q_lora_rank=q_lora_rank,
        kv_lora_rank=SMALL.kv_lora_rank,
        qk_nope_head_dim=SMALL.qk_nope_head_dim,
        qk_rope_head_dim=SMALL.qk_rope_head_dim,
        v_head_dim=SMALL.v_head_dim,
        rope_interleave=interleave,
        max_position_embeddings=SMALL.context_len,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA},
    )
    config._attn_implementation = "eager"
    torch.manual_seed(1)
    layer = DeepseekV3Attention(config, layer_idx=0).eval()
    with torch.no_grad():
        for parameter in layer.parameters():
            if parameter.dim() == 2:
                parameter.copy_(torch.randn(parameter.shape) * parameter.shape[1] ** -0.5)
            else:
                parameter.copy_(1.0 + 0.1 * torch.randn(parameter.shape))
    return layer


def their_output(layer: DeepseekV3Attention, hidden: torch.Tensor) -> torch.Tensor:
    """``[L, hidden]`` float64 of one whole sequence under a causal mask."""
    exact = layer.double()
    length = hidden.shape[0]
    rows = hidden.double()[None]
    mask = torch.full((length, length), float("-inf"), dtype=torch.float64).triu(1)
    embeddings = DeepseekV3RotaryEmbedding(layer.config)(rows, torch.arange(length)[None])
    with torch.no_grad():
        out: torch.Tensor = exact(rows, embeddings, mask[None, None])[0][0]
    return out


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize(("q_lora_rank", "interleave"), [(24, True), (None, False)])
@pytest.mark.parametrize("name", WIDE)
def test_every_phase_equals_transformers(
    name: str, q_lora_rank: int | None, interleave: bool, dtype: torch.dtype
) -> None:
    theirs = their_layer(q_lora_rank, interleave).to(dtype)
    world = World(dtype=dtype, settings=EngineSettings(chunked_prefix_cache_threshold=1))
    ours = MlaAttention(
        SMALL,
        world.core,
        HIDDEN,
        q_lora_rank,
        rope_theta=ROPE_THETA,
        rope_interleave=interleave,
        dtype=dtype,
    )
    ours.load_state_dict(theirs.state_dict())
    backend = BACKENDS[name](world.runner)
    hidden = [torch.randn(length + 60, HIDDEN).to(dtype) for length in PROMPTS]
    expected = [their_output(theirs, rows) for rows in hidden]
    done = [0] * len(PROMPTS)
    steps: list[tuple[ForwardMode, list[int], AttentionForm | None]] = [
        (ForwardMode.EXTEND, PROMPTS, None),
        (ForwardMode.EXTEND, [7, 1, 32], AttentionForm.MHA_CHUNKED_KV),
        (ForwardMode.MIXED, [1, 9, 1], AttentionForm.MHA_ONE_SHOT),
        (ForwardMode.DECODE, [1, 1, 1], None),
        (ForwardMode.TARGET_VERIFY, [4, 4, 4], None),
        (ForwardMode.DRAFT_EXTEND_V2, [2, 1, 4], None),
    ]
    tolerance = 1e-5 if dtype == torch.float32 else 1e-2
    for mode, counts, form in steps:
        slots = [s for r, n in enumerate(counts) for s in world.grow(r, done[r] + n)]
        batch = world.batch(mode, list(range(len(counts))), done, counts, slots)
        rows = torch.cat([h[d : d + n] for h, d, n in zip(hidden, done, counts, strict=True)])
        backend.init_forward_metadata(batch)
        taken = plan_form(backend, batch, world.core.req_to_token, 20, form)
        with torch.no_grad():
            out = ours(rows, batch, backend, taken)
        wanted = torch.cat([e[d : d + n] for e, d, n in zip(expected, done, counts, strict=True)])
        assert relative_error(out, wanted) <= tolerance, mode
        done = [d + n for d, n in zip(done, counts, strict=True)]
