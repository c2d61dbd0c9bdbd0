"""A backend of one's own, with no optional hook, under the same base class and layer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from mla_runtime import AttentionBackend, AttentionForm, ForwardMode
from mla_runtime.settings import EngineSettings, MlaShape
from tests.runtime.world import World


class Recording(AttentionBackend):
    """Notes what it is asked; its output is the query's latent part."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def init_forward_metadata_out_graph(self, forward_batch: Any, in_capture: bool = False) -> None:
        self.asked.append(f"out_graph {in_capture}")

    def init_forward_metadata_in_graph(self, forward_batch: Any) -> None:
        self.asked.append("in_graph")

    def forward_decode(
        self, q: Any, k: Any, v: Any, layer: Any, forward_batch: Any, save_kv_cache: bool = True,
        q_rope: Any = None, k_rope: Any = None,
    ) -> Any:  # fmt: skip
        self.asked.append("decode")
        return q.reshape(q.shape[0], -1)

    def forward_extend(
        self, q: Any, k: Any, v: Any, layer: Any, forward_batch: Any, save_kv_cache: bool = True,
        q_rope: Any = None, k_rope: Any = None,
    ) -> Any:  # fmt: skip
        self.asked.append("extend")
        return q.reshape(q.shape[0], -1), torch.zeros(q.shape[:2])


def test_the_eager_hook_is_the_two_graph_hooks() -> None:
    backend, batch = Recording(), World().pass_of(ForwardMode.DECODE, [4], [1]).batch
    backend.init_forward_metadata(batch)
    assert backend.asked == ["out_graph False", "in_graph"]


def test_the_layer_takes_the_absorbed_form_and_calls_by_phase() -> None:
    backend, world = Recording(), World()
    one_pass = world.pass_of(ForwardMode.DECODE, [4], [1])
    assert backend.preferred_form(one_pass.batch) is AttentionForm.MLA
    out = one_pass.run(backend)
    assert torch.equal(out, world.heads.values(world.heads.absorb(one_pass.q_nope)))
    assert backend.asked[-1] == "decode"
    assert backend.get_cuda_graph_seq_len_fill_value() == 1


def test_states_merge_without_a_kernel_library() -> None:
    out, lse = Recording().merge_state(
        torch.ones(1, 1, 2), torch.zeros(1, 1), torch.full((1, 1, 2), 3.0), torch.zeros(1, 1)
    )
    assert out.tolist() == [[[2.0, 2.0]]]
    assert lse.item() == pytest.approx(0.6931472)


def test_an_lse_where_none_was_asked_for_is_refused() -> None:
    world = World()
    one_pass = world.pass_of(ForwardMode.EXTEND, [0], [2])
    with pytest.raises(TypeError, match=r"\(out, lse\) where the LSE was not asked"):
        one_pass.run(Recording(), AttentionForm.MLA)


def test_a_missing_lse_is_refused_where_a_merge_needs_it() -> None:
    class Bare(Recording):
        def init_mha_chunk_metadata(
            self, forward_batch: Any, disable_flashinfer_ragged: bool = False
        ) -> None:
            self.asked.append("chunks")

        def forward_extend(self, *args: Any, **kwargs: Any) -> Any:
            return super().forward_extend(*args, **kwargs)[0]

    one_pass = World().pass_of(ForwardMode.EXTEND, [9], [2])
    with pytest.raises(TypeError, match="no LSE where a merge needs it"):
        one_pass.run(Bare(), AttentionForm.MHA_CHUNKED_KV)


@pytest.mark.parametrize(
    ("extra", "heads"),
    [
        ({}, 16),
        ({"tp_size": 4}, 4),
        ({"tp_size": 8, "attn_tp_size": 2}, 8),
        ({"tp_size": 8, "server_args": SimpleNamespace(enable_dp_attention=True, dp_size=4)}, 8),
    ],
)
def test_heads_per_rank(extra: dict[str, Any], heads: int) -> None:
    world = World()
    runner = SimpleNamespace(
        model_config=SimpleNamespace(
            num_attention_heads=16, kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8,
            v_head_dim=12, scaling=0.2, context_len=64,
        ),
        dtype=torch.bfloat16, page_size=1, device="cpu",
        req_to_token_pool=world.req_to_token, token_to_kv_pool=world.pool,
        **extra,
    )  # fmt: skip
    assert MlaShape.of(runner).num_heads == heads
    assert MlaShape.of(runner).kv_dtype == torch.bfloat16
    assert EngineSettings.of(runner) == EngineSettings()
