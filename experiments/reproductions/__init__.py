"""Experiments that are done again: what their plan becomes elsewhere, and what came of it."""
