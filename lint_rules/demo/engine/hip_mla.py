from engine.base import AttentionBackend
from engine.flashinfer_mla import FlashInferMLABackend
from engine.kernels import hip_decode, hip_extend, plan_decode, plan_extend


class HipMLABackend(AttentionBackend):
    """Kernels of its own; what plans them is the same code."""

    replay_cuda_graph = FlashInferMLABackend.replay_cuda_graph

    def __init__(self, model_runner):
        super().__init__()
        self.max_context_len = model_runner.model_config.context_len

    def init_forward_metadata(self, forward_batch):
        mode = forward_batch.forward_mode
        plan = None
        if mode.is_decode():
            plan = plan_decode(forward_batch.seq_lens)
        elif mode.is_extend():
            plan = plan_extend(forward_batch.seq_lens)
        self.plan = plan

    def init_cuda_graph_state(self, max_bs):
        self.max_bs = max_bs

    def commit_draft(self, accepted):
        self.kv_indptr = accepted.cumsum(0)

    def forward_decode(self, q, k, v, layer, forward_batch, save_kv_cache=True):
        return hip_decode(q, k, v, self.plan.kv_indptr)

    def forward_extend(self, q, k, v, layer, forward_batch, save_kv_cache=True):
        return hip_extend(q, k, v, self.plan.kv_indptr)
