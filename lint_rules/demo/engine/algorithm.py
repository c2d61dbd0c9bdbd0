"""Which speculative algorithm is configured: one of ours, or what a plugin registered."""

from __future__ import annotations

from enum import Enum

from engine.spec_worker import ChainWorker, LookupWorker, TreeWorker


class PluginAlgorithm:
    """Has the methods of a ``SpecAlgorithm``."""

    def __init__(self, worker):
        self.worker = worker

    def is_tree(self):
        return False

    def is_lookup(self):
        return False

    def has_draft_model(self):
        return True

    def create_worker(self, runner):
        return self.worker(runner)


PLUGINS = {}


class SpecAlgorithm(Enum):
    CHAIN = 1
    TREE = 2
    LOOKUP = 3

    @classmethod
    def from_name(cls, name) -> SpecAlgorithm | PluginAlgorithm:
        return PLUGINS[name] if name in PLUGINS else cls[name]

    def is_tree(self):
        return self is SpecAlgorithm.TREE

    def is_lookup(self):
        return self is SpecAlgorithm.LOOKUP

    def has_draft_model(self):
        return not self.is_lookup()

    def needs_scores(self):
        return self.is_tree()

    def create_worker(self, runner):
        if self.is_tree():
            return TreeWorker(runner)
        return LookupWorker(runner) if self.is_lookup() else ChainWorker(runner)
