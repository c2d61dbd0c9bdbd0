import torch

from engine.flashinfer_mla import FlashInferMLABackend
from engine.kernels import tokenspeed_prefill


class TokenspeedMLABackend(FlashInferMLABackend):
    """Brings its own, smaller workspace."""

    def __init__(self, model_runner, skip_prefill=False):
        super().__init__(model_runner, skip_prefill, skip_workspace=True)
        self.workspace_buffer = torch.empty(8 << 20, dtype=torch.uint8, device=self.device)

    def forward_extend(self, q, k, v, layer, forward_batch, save_kv_cache=True):
        return tokenspeed_prefill(q, k, v, self.workspace_buffer)
