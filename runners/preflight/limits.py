"""How many jobs and questions a site bears, from what a check has measured. Pure."""

from runners.preflight.checks import Check, Site
from runners.schedulers import Scheduler

AREA = "Scheduler"
PAUSES = (2, 3, 5, 10, 15, 30, 60)  # seconds between status calls
CALLS_TO_A_PAUSE = 50  # a scheduler is asked for at most 2 % of the time
FEWEST, MOST = 4, 64  # live jobs


def suggest(seconds: float, site: Site, scheduler: Scheduler) -> Check:
    """Suggest limits: a queue that does not run empty between two visits, and is asked seldom.

    `seconds` is how long a status call took, the way there included.
    """
    pause = next((step for step in PAUSES if step >= seconds * CALLS_TO_A_PAUSE), PAUSES[-1])
    at_once = jobs_at_once(site, scheduler)
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


def jobs_at_once(site: Site, scheduler: Scheduler) -> int:
    """Return how many of the smallest jobs have room in the largest partition; at least one."""
    if not scheduler.has_partitions and not any(
        one.resources.side_by_side for one in site.partitions
    ):
        return 1
    sizes = (one.nodes * max(one.resources.gpus_per_node, 1) for one in site.partitions)
    return max(sizes, default=1)
