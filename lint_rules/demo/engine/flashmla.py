import torch

from engine.flashinfer_mla import FlashInferMLABackend
from engine.kernels import flash_mla_decode, get_mla_metadata


class FlashMLABackend(FlashInferMLABackend):
    def init_cuda_graph_state(self, max_bs):
        self.cuda_graph_block_tables = torch.zeros(
            (max_bs, self.max_context_len // 64), dtype=torch.int32, device=self.device
        )

    def forward_decode(self, q, k, v, layer, forward_batch, save_kv_cache=True):
        schedule = get_mla_metadata(forward_batch.seq_lens)
        return flash_mla_decode(q, self.cuda_graph_block_tables, schedule)
