"""A source file whose name, code and strings try to become markup or script."""

from __future__ import annotations

MARKUP = '</script><img src=x onerror="window.owned=1"><!--<script>window.owned=1</script>'

HOSTILE_NAME = "a'\"><img onerror=window.owned=1 src=x> {{script}} \u2028.py"

HOSTILE_SOURCE = f"""\
from .base import AttentionBackend


class HostileBackend(AttentionBackend):
    # {MARKUP} {{{{data}}}} \u2028 \u2029 \x0c \x00
    def init_cuda_graph_state(self, **{{}}):  # {MARKUP}
        return '''{MARKUP}'''
""".replace(", **{}", "")
