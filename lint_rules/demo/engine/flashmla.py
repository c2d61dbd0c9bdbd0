import torch

from engine.flashinfer_mla import FlashInferMLABackend
from engine.kernels import flash_mla_decode, flash_mla_extend, get_mla_metadata


class FlashMLABackend(FlashInferMLABackend):
    def init_forward_metadata(self, forward_batch):
        if forward_batch.forward_mode.is_decode():
            self.schedule = get_mla_metadata(forward_batch.seq_lens)
        else:
            super().init_forward_metadata(forward_batch)

    def init_cuda_graph_state(self, max_bs):
        self.cuda_graph_block_tables = torch.zeros(
            (max_bs, self.max_context_len // 64), dtype=torch.int32, device=self.device
        )

    def forward_decode(self, q, k, v, layer, forward_batch, save_kv_cache=True):
        return flash_mla_decode(q, self.cuda_graph_block_tables, self.schedule)

    def forward_extend(self, q, k, v, layer, forward_batch, save_kv_cache=True):
        return flash_mla_extend(q, k, v, self.schedule)
