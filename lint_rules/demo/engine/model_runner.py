from engine.base import AttentionBackend
from engine.forward_batch import ForwardBatch
from engine.model_config import ModelConfig
from engine.registry import create_attention_backend


class ModelRunner:
    def __init__(self, model, model_config: ModelConfig, server_args):
        self.model = model
        self.model_config = model_config
        self.attn_backend: AttentionBackend = create_attention_backend(self, server_args)

    def capture(self, max_bs):
        self.attn_backend.init_cuda_graph_state(max_bs)
        self.max_pages = self.attn_backend.max_context_len // 64

    def record(self, forward_batch: ForwardBatch, graph):
        self.attn_backend.plan_outside_graph(forward_batch)
        with graph:
            self.model(forward_batch)

    def replay(self, forward_batch: ForwardBatch):
        self.attn_backend.replay_cuda_graph(forward_batch.batch_size, forward_batch.seq_lens)

    def forward(self, forward_batch: ForwardBatch):
        forward_batch.attn_backend = self.attn_backend
        self.attn_backend.init_forward_metadata(forward_batch)
        return self.model(forward_batch)
