"""Faults on purpose, with real parts, and one check of what Tare promises after each of them."""
