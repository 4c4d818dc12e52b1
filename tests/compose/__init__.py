"""Bring docker-compose.yml up with a real Docker engine: `make compose-proof`, docs/compose.md."""
