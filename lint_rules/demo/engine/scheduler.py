from engine.algorithm import SpecAlgorithm
from engine.model_runner import ModelRunner


class Scheduler:
    def __init__(self, runner: ModelRunner, server_args):
        self.runner = runner
        self.algorithm = SpecAlgorithm.from_name(server_args.spec_algorithm)
        self.worker = self.algorithm.create_worker(runner)
        self.scores = [] if self.algorithm.needs_scores() else None

    def step(self, batch, stage_input):
        self.runner.attn_backend.init_forward_metadata(batch)
        return self.worker.generate(batch, stage_input=stage_input)
