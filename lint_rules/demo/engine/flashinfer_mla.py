import torch

from engine.base import AttentionBackend
from engine.kernels import BatchMLADecode, RaggedPrefill, ragged_prefill
from engine.server_args import get_global_server_args


class MhaChunkKVRunner:
    """Runs prefill over a long cached prefix in chunks, as MHA."""

    def __init__(self, model_runner):
        self.ragged = RaggedPrefill(model_runner.device)

    def update(self, forward_batch, disable_flashinfer_ragged):
        if not disable_flashinfer_ragged:
            self.ragged.plan(forward_batch.prefix_chunk_cu_seq_lens)


class FlashInferMLABackend(AttentionBackend):
    def __init__(self, model_runner, skip_prefill=False, skip_workspace=False):
        super().__init__()
        self.device = model_runner.device
        self.max_context_len = model_runner.model_config.context_len
        self.scaling = model_runner.model_config.scaling
        self.skip_prefill = skip_prefill
        self.enable_chunk_kv = (
            not skip_prefill and not get_global_server_args().disable_chunked_prefix_cache
        )
        if not skip_workspace:
            self.workspace_buffer = torch.empty(128 << 20, dtype=torch.uint8, device=self.device)
            self.decode_wrapper = BatchMLADecode(self.workspace_buffer)
        if self.enable_chunk_kv:
            self.mha_chunk_kv_cache = MhaChunkKVRunner(model_runner)

    def init_forward_metadata(self, forward_batch):
        self.decode_wrapper.plan(forward_batch.seq_lens)
        self.extend_lens = forward_batch.seq_lens

    def init_mha_chunk_metadata(self, forward_batch, disable_flashinfer_ragged=False):
        self.mha_chunk_kv_cache.update(forward_batch, disable_flashinfer_ragged)

    def plan_outside_graph(self, forward_batch):
        self.raw_lens = forward_batch.seq_lens

    def plan_in_graph(self, forward_batch):
        self.graph_lens = self.raw_lens.cumsum(0)

    def init_cuda_graph_state(self, max_bs):
        self.cuda_graph_kv_indptr = torch.zeros(max_bs + 1, dtype=torch.int32, device=self.device)

    def replay_cuda_graph(self, bs, seq_lens):
        self.cuda_graph_kv_indptr[1 : bs + 1] = torch.cumsum(seq_lens, dim=0)

    def commit_draft(self, accepted):
        self.accepted = accepted

    def forward_decode(self, q, k, v, layer, forward_batch, save_kv_cache=True):
        kv_buffer = forward_batch.kv_buffer(layer.layer_id)
        output, lse = self.decode_wrapper.run(q * self.scaling, kv_buffer)
        if get_global_server_args().decode_context_parallel:
            return output, lse
        return output

    def _one_shot(self, q, k, v, forward_batch):
        return ragged_prefill(q, k, v, forward_batch.seq_lens, self.one_shot_workspace)

    def forward_extend(self, q, k, v, layer, forward_batch, save_kv_cache=True):
        if forward_batch.is_one_shot:
            return self._one_shot(q, k, v, forward_batch)
        return ragged_prefill(q, k, v, self.extend_lens)
