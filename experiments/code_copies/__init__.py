"""Code of workloads: archives that are sent to this site, and copies on clusters."""
