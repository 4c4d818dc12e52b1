"""What the pages say while a fault lasts, word by word; docs/reliability.md shows the same."""

SAID = {
    "Valkey is killed": "Valkey does not answer. Workers are not told what to do, so nothing is "
    "submitted or collected; nothing is lost: what is to be done stands in PostgreSQL.",
    "PostgreSQL is killed": "Jobs on the clusters go on, and no result is lost.",
}
