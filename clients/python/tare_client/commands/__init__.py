"""The commands of tare: `run_NAME` takes parsed words and returns the exit code."""
