"""Speculative decoding: a draft is proposed, verified and committed."""

from engine.model_runner import ModelRunner


class BaseSpecWorker:
    def __init__(self, runner: ModelRunner):
        self.runner = runner

    def commit(self, accepted):
        self.runner.attn_backend.commit_draft(accepted)


class ChainWorker(BaseSpecWorker):
    def generate(self, batch, on_publish=None, stage_input=None):
        return self.runner.forward(batch)


class TreeWorker(BaseSpecWorker):
    def generate(self, batch, on_publish=None, stage_input=None):
        return self.runner.forward(batch)


class LookupWorker(BaseSpecWorker):
    def generate(self, batch, on_publish=None):
        return self.runner.forward(batch)
