"""``mla-guard server``: findings in the editor, while the text is being written.

Two processes: ``serve`` speaks with the editor and needs pygls; ``worker`` checks, as the command
line does, and needs what the linter needs. A check that dies takes no editor session with it.
"""
