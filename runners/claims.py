"""Claims directories of jobs that have never begun, in place of a job script that may still come.

The file `started` is the claim: a hard link, which one alone can make. The job script makes it as
its first act (`claim` in `job.sh.template`); where a scheduler has lost the job, Tare makes it
instead. A copy of the job that appears later then steps aside, without executing anything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from runners.errors import TryAgain
from runners.transports import Completed
from runners.untrusted import clean_text

PREFIX = "tare:"
"""What Tare's claim begins with. A job script's is the id of its job, which never looks like it."""
CLAIM_TEXT = f"{PREFIX} the scheduler did not know this job any more, and it had not begun"

# Prints "claimed N" for each directory, by its number, whose claim is Tare's, also where an earlier
# command has made it.
# Nothing is claimed where the job's files are not, or where there are signs of a job that began.
# The number of links tells who it was, even where NFS reports a link that it made as failed.
CLAIM = f"""number=0
for directory; do
    number=$((number + 1))
    (
        [ ! -L "$directory" ] && cd "$directory" && [ -f job.sh ] || exit
        [ ! -e journal.ndjson ] && [ ! -e exit_code ] || exit
        mine=.claim-tare-$$-$number
        echo '{CLAIM_TEXT}' >"$mine" && ln "$mine" started
        [ "$(stat -c %h "$mine")" = 2 ] || {{ [ -f started ] && grep -q '^{PREFIX}' started; }} &&
            echo "claimed $number"
        rm -f "$mine"
    ) 2>/dev/null
done
:
"""


def is_claimed_by_tare(started: str) -> bool:
    """Return whether this text of a file `started` is Tare's own."""
    return started.startswith(PREFIX)


def read_claims(done: Completed, directories: Sequence[str]) -> set[str]:
    """Return those of `directories` that are Tare's now, by the answer of CLAIM about them."""
    if done.returncode != 0:
        message = clean_text(done.stderr).strip()
        raise TryAgain(f"The directories of jobs cannot be claimed: {message}", kind="busy")
    numbers = re.findall(r"^claimed ([0-9]{1,6})$", clean_text(done.stdout), re.MULTILINE)
    return {directories[int(text) - 1] for text in numbers if 1 <= int(text) <= len(directories)}
