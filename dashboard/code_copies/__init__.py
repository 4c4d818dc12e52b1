"""Code of workloads on clusters: the panel of the workload page, and its buttons."""
