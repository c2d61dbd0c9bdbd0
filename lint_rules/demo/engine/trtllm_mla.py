from engine.flashinfer_mla import FlashInferMLABackend
from engine.kernels import trtllm_decode, trtllm_ragged
from engine.server_args import get_global_server_args


class TRTLLMMLABackend(FlashInferMLABackend):
    def __init__(self, model_runner, skip_prefill=False):
        super().__init__(model_runner, skip_prefill)
        self.one_shot_workspace = model_runner.workspace[0]
        self.disable_chunked_prefix_cache = get_global_server_args().disable_chunked_prefix_cache

    def init_mha_chunk_metadata(self, forward_batch):
        if self.disable_chunked_prefix_cache or forward_batch.is_target_verify:
            super().init_mha_chunk_metadata(forward_batch)

    def forward_decode(self, q, k, v, layer, forward_batch, save_kv_cache=True):
        kv_buffer = forward_batch.kv_buffer(layer.layer_id)
        return trtllm_decode(q, kv_buffer, forward_batch.block_tables).view(-1, layer.output_size)

    def forward_extend(self, q, k, v, layer, forward_batch, save_kv_cache=True):
        return trtllm_ragged(q, k, v, forward_batch.cu_seq_lens)
