"""Experiments as files: reading, writing, and the JSON schema of the format `tare: 1`."""
