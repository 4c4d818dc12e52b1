"""How far apart visits to a cluster begin: often while things change, at the setting otherwise."""

from __future__ import annotations

from datetime import datetime

IDLE_SECONDS = 60
"""How often a cluster without work is visited, so that its page knows whether it is reachable."""
MOST_OFTEN = 4
"""While things change a cluster is visited so many times as often as its setting says."""
LEAST_SECONDS = 1.0
SHARE_OF_QUIET = 1 / 4
"""A change is noticed at the latest after this share of the time for which nothing had changed."""
VISITS_APART = 4
"""Visits are as many times as far apart as the last one took, up to the setting."""
LONGEST_VISIT_SECONDS = 600


def compute_floor(setting: float, took: float | None) -> float:
    """Return how many seconds must lie between the beginnings of two visits, whatever happens.

    `setting`: the cluster's own interval; `took`: how long the last visit took. Both in seconds.
    """
    return min(setting, max(setting / MOST_OFTEN, LEAST_SECONDS, VISITS_APART * (took or 0)))


def compute_interval(
    setting: float,
    *,
    took: float | None,
    last_visit: datetime | None,
    changed_at: datetime | None,
) -> float:
    """Return how many seconds apart visits begin where jobs are live or wait; never over `setting`.

    The longer nothing has changed when the last visit began, the longer until the next one: jobs of
    seconds are followed closely, and those that run or wait for hours are not asked about in vain.
    """
    if last_visit is None or changed_at is None:
        return setting
    quiet = (last_visit - changed_at).total_seconds()
    if quiet < -LONGEST_VISIT_SECONDS:  # written before the clock was turned back
        return setting
    return min(setting, max(compute_floor(setting, took), SHARE_OF_QUIET * quiet))
