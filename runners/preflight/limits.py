"""Suggested limits on jobs and status calls, from what a check has measured. No I/O."""

from runners.preflight.checks import Check, Site
from runners.schedulers import Scheduler

AREA = "Scheduler"
PAUSES = (2, 3, 5, 10, 15, 30, 60)  # seconds between status calls
CALLS_TO_A_PAUSE = 50  # status calls take at most 2 % of the time
FEWEST, MOST = 4, 64  # live jobs


def suggest_limits(seconds: float, site: Site, scheduler: Scheduler) -> Check:
    """Suggest limits so that the queue does not run empty between two status calls.

    `seconds` is how long a status call took, the network included.
    """
    pause = next((step for step in PAUSES if step >= seconds * CALLS_TO_A_PAUSE), PAUSES[-1])
    at_once = count_jobs_at_once(site, scheduler)
    live = min(max(2 * at_once, FEWEST), MOST)
    return Check(
        AREA,
        "Limits",
        "ok",
        f"A status call takes {seconds:.2g} s, and {at_once} "
        f"job{'s' * (at_once != 1)} of one GPU or node could run at once: {live} live jobs and a "
        f"call every {pause} s suit that.",
        limits=f"{live} {pause}",
    )


def count_jobs_at_once(site: Site, scheduler: Scheduler) -> int:
    """Return how many of the smallest jobs fit into the largest partition; at least one."""
    if not scheduler.has_partitions and not any(
        partition.resources.side_by_side for partition in site.partitions
    ):
        return 1
    sizes = (
        partition.nodes * max(partition.resources.gpus_per_node, 1) for partition in site.partitions
    )
    return max(sizes, default=1)
