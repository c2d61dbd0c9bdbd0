"""Backends that hold backends."""

from engine.base import AttentionBackend


class HybridLinearBackend(AttentionBackend):
    """Full attention in some layers, linear attention in the others."""

    def __init__(self, full_attn_backend: AttentionBackend, full_attn_layers):
        self.full_attn_backend = full_attn_backend
        self.full_attn_layers = full_attn_layers
        self.max_context_len = full_attn_backend.max_context_len

    def init_forward_metadata(self, forward_batch):
        self.full_attn_backend.init_forward_metadata(forward_batch)

    def init_mha_chunk_metadata(self, forward_batch, disable_flashinfer_ragged=False):
        inner = getattr(self.full_attn_backend, "init_mha_chunk_metadata", None)
        if inner is not None:
            inner(forward_batch, disable_flashinfer_ragged=disable_flashinfer_ragged)

    def plan_outside_graph(self, forward_batch):
        self.full_attn_backend.plan_outside_graph(forward_batch)

    def plan_in_graph(self, forward_batch):
        self.full_attn_backend.plan_in_graph(forward_batch)

    def init_cuda_graph_state(self, max_bs):
        self.full_attn_backend.init_cuda_graph_state(max_bs)

    def replay_cuda_graph(self, bs, seq_lens):
        self.full_attn_backend.replay_cuda_graph(bs, seq_lens)

    def commit_draft(self, accepted):
        self.full_attn_backend.commit_draft(accepted)

    def forward_decode(self, q, k, v, layer, forward_batch, save_kv_cache=True):
        return self.full_attn_backend.forward_decode(q, k, v, layer, forward_batch, save_kv_cache)

    def forward_extend(self, q, k, v, layer, forward_batch, save_kv_cache=True):
        return self.full_attn_backend.forward_extend(q, k, v, layer, forward_batch, save_kv_cache)


class SlidingWindowBackend(AttentionBackend):
    """One backend for the layers that see everything, one for those that see a window."""

    def __init__(self, full_backend: AttentionBackend, window_backend: AttentionBackend):
        self.full_backend = full_backend
        self.window_backend = window_backend
        self.max_context_len = full_backend.max_context_len

    def init_forward_metadata(self, forward_batch):
        self.full_backend.init_forward_metadata(forward_batch)
        self.window_backend.init_forward_metadata(forward_batch)

    def init_mha_chunk_metadata(self, forward_batch, disable_flashinfer_ragged=False):
        self.window_backend.init_mha_chunk_metadata(forward_batch)

    def plan_outside_graph(self, forward_batch):
        self.full_backend.plan_outside_graph(forward_batch)
        self.window_backend.plan_outside_graph(forward_batch)

    def plan_in_graph(self, forward_batch):
        self.full_backend.plan_in_graph(forward_batch)
        self.window_backend.plan_in_graph(forward_batch)

    def init_cuda_graph_state(self, max_bs):
        self.full_backend.init_cuda_graph_state(max_bs)
        self.window_backend.init_cuda_graph_state(max_bs)

    def replay_cuda_graph(self, bs, seq_lens):
        self.full_backend.replay_cuda_graph(bs, seq_lens)
        self.window_backend.replay_cuda_graph(bs, seq_lens)

    def commit_draft(self, accepted):
        self.full_backend.commit_draft(accepted)

    def forward_decode(self, q, k, v, layer, forward_batch, save_kv_cache=True):
        inner = self.window_backend if layer.sliding_window else self.full_backend
        return inner.forward_decode(q, k, v, layer, forward_batch, save_kv_cache)

    def forward_extend(self, q, k, v, layer, forward_batch, save_kv_cache=True):
        inner = self.window_backend if layer.sliding_window else self.full_backend
        return inner.forward_extend(q, k, v, layer, forward_batch, save_kv_cache)


class TwoBatchBackend(AttentionBackend):
    """Overlaps the communication of one half of a batch with the computation of the other."""

    def __init__(self, primary: AttentionBackend, children: list[AttentionBackend]):
        self.primary = primary
        self.children = children

    def init_forward_metadata(self, forward_batch):
        self.primary.init_forward_metadata(forward_batch)
        for child, half in zip(self.children, forward_batch.halves):
            child.init_forward_metadata(half)

    def plan_outside_graph(self, forward_batch):
        self.primary.plan_outside_graph(forward_batch)

    def plan_in_graph(self, forward_batch):
        self.primary.plan_in_graph(forward_batch)

    def init_cuda_graph_state(self, max_bs):
        self.primary.init_cuda_graph_state(max_bs)
        for child in self.children:
            child.init_cuda_graph_state(max_bs)

    def replay_cuda_graph(self, bs, seq_lens):
        self.primary.replay_cuda_graph(bs, seq_lens)

    def commit_draft(self, accepted):
        self.primary.commit_draft(accepted)

    def forward_decode(self, q, k, v, layer, forward_batch, save_kv_cache=True):
        return self.primary.forward_decode(q, k, v, layer, forward_batch, save_kv_cache)

    def forward_extend(self, q, k, v, layer, forward_batch, save_kv_cache=True):
        return self.primary.forward_extend(q, k, v, layer, forward_batch, save_kv_cache)


class PhaseBackend(AttentionBackend):
    """One backend for prefill, one for decode."""

    __mla_routes__ = {
        "init_forward_metadata": {"prefill": "prefill_backend", "decode": "decode_backend"},
        "init_mha_chunk_metadata": "prefill_backend",
        "init_cuda_graph_state": ("prefill_backend", "decode_backend"),
        "plan_for_graph": "base",
        "plan_outside_graph": "decode_backend",
        "plan_in_graph": "decode_backend",
        "commit_draft": "decode_backend",
        "forward": "base",
        "forward_decode": "decode_backend",
        "forward_extend": "prefill_backend",
    }

    def __init__(self, prefill_backend: AttentionBackend, decode_backend: AttentionBackend):
        self.prefill_backend = prefill_backend
        self.decode_backend = decode_backend
        self.max_context_len = decode_backend.max_context_len

    def init_forward_metadata(self, forward_batch):
        decodes = forward_batch.forward_mode.is_decode()
        inner = self.decode_backend if decodes else self.prefill_backend
        inner.init_forward_metadata(forward_batch)

    def init_mha_chunk_metadata(self, forward_batch, disable_flashinfer_ragged=False):
        inner = getattr(self.prefill_backend, "init_mha_chunk_metadata", None)
        if inner is not None:
            inner(forward_batch)

    def plan_outside_graph(self, forward_batch):
        self.decode_backend.plan_outside_graph(forward_batch)

    def plan_in_graph(self, forward_batch):
        self.decode_backend.plan_in_graph(forward_batch)

    def init_cuda_graph_state(self, max_bs):
        self.prefill_backend.init_cuda_graph_state(max_bs)
        self.decode_backend.init_cuda_graph_state(max_bs)

    def commit_draft(self, accepted):
        self.decode_backend.commit_draft(accepted)

    def forward_decode(self, q, k, v, layer, forward_batch, save_kv_cache=True):
        return self.decode_backend.forward_decode(q, k, v, layer, forward_batch, save_kv_cache)

    def forward_extend(self, q, k, v, layer, forward_batch, save_kv_cache=True):
        return self.prefill_backend.forward_extend(q, k, v, layer, forward_batch, save_kv_cache)
