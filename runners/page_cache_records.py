"""What a run's record says of the page cache before it. No I/O."""

from __future__ import annotations

import json

FILE = "page_cache.json"
POLICIES = ("cold", "warm")
MOST_BYTES = 10_000
MOST = 2**63


def describe_page_cache(content: bytes) -> str:
    """Return what a run's record says of the page cache, as a phrase; "" if nothing of use."""
    try:
        found = json.loads(content[:MOST_BYTES] or b"null")
    except (ValueError, RecursionError):
        return ""
    if not isinstance(found, dict) or found.get("policy") not in POLICIES:
        return ""
    count, size, share = (found.get(name) for name in ("files", "bytes", "cached"))
    if not isinstance(count, int) or not isinstance(size, int):
        return ""
    if not isinstance(share, int | float) or isinstance(count, bool):
        return ""
    if not (0 <= share <= 1 and 0 <= count < MOST and 0 <= size < MOST):
        return ""
    return (
        f"page cache {found['policy']}: before the run {100 * share:.1f} % of "
        f"{size / 1e6:,.1f} MB in {count:,} files were in memory"
    )
