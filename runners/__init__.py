"""Run jobs on clusters and fetch what they leave. Knows nothing of Django."""
