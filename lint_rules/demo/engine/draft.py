from engine.trtllm_mla import TRTLLMMLABackend


class MultiStepDraftBackend:
    """One decode backend for each speculative step; not itself a backend."""

    def __init__(self, model_runner, num_steps):
        self.attn_backends = [
            TRTLLMMLABackend(model_runner, skip_prefill=True) for _ in range(num_steps)
        ]

    def init_forward_metadata(self, forward_batch):
        for backend in self.attn_backends:
            backend.init_forward_metadata(forward_batch)

    def init_cuda_graph_state(self, max_bs):
        for backend in self.attn_backends:
            backend.init_cuda_graph_state(max_bs)
