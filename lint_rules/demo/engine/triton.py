from engine.base import AttentionBackend
from engine.kernels import triton_decode, triton_extend


class TritonBackend(AttentionBackend):
    """Plain attention: knows nothing of MLA's chunked prefix."""

    def __init__(self, model_runner):
        super().__init__()
        self.max_context_len = model_runner.model_config.context_len

    def init_forward_metadata(self, forward_batch):
        self.kv_indptr = forward_batch.seq_lens.cumsum(0)

    def init_cuda_graph_state(self, max_bs):
        self.max_bs = max_bs

    def replay_cuda_graph(self, bs, seq_lens):
        self.kv_indptr = seq_lens[:bs].cumsum(0)

    def _padded(self, bs):
        return min(bs, self.max_bs)

    def replay_cuda_graph(self, bs, seq_lens):
        self.kv_indptr = seq_lens.cumsum(0)

    def forward_decode(self, q, k, v, layer, forward_batch, save_kv_cache=True):
        return triton_decode(q, k, v, self.kv_indptr)

    def forward_extend(self, q, k, v, layer, forward_batch, save_kv_cache=True):
        return triton_extend(q, k, v, self.kv_indptr)
