"""Shared by the tests of the language server."""

from tests.lint.conftest import user_cache

__all__ = ["user_cache"]
