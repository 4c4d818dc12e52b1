"""Tare on one machine, with nothing installed beforehand: its own PostgreSQL, Valkey and processes.

Nothing here imports Django: these modules make the environment that the settings read.
"""
