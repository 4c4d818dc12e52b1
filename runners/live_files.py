"""Reads what running programs have printed and reported so far, of several runs by one command.

Programs write these files while they are read: what is said here is only ever shown, and the files
that a job's end brings home decide about its runs.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from runners.errors import TryAgain
from runners.node_samples import SAMPLES
from runners.transports import Transport
from runners.untrusted import clean_text

MOST_REPORT_BYTES = 256 * 1024
"""Of a run's report in one answer; the rest is asked for next time."""
MOST_OUTPUT_BYTES = 8000
MOST_NODE_BYTES = 12_000
"""Of the samples of the node: those of about the last quarter of an hour."""
MOST_GPU_BYTES = 32_000
LONGEST_SECONDS = 10
"""Of one answer: the visit has more to do."""

# Gets an offset and a directory of each run. Prints for each its number, the offset from which its
# report is sent (0 if the file is shorter than it was), and how many bytes of report, output and
# samples of its job's node and of the GPUs follow; then those bytes. Of several processes the first
# one's files are read.
LIVE = f"""number=0
measure() {{
    bytes=0
    if [ -n "$1" ]; then bytes=$(stat -L -c %s -- "$1" 2>/dev/null); fi
    case $bytes in '' | *[!0-9]*) bytes=0 ;; esac
}}
# A link to another file is not followed: it may lead to what the program could not read itself.
is_own() {{
    [ -f "$1" ] && [ -r "$1" ] &&
        [ "$(realpath "$1")" = "$(realpath "$directory")${{1#"$directory"}}" ]
}}
send_end() {{
    {{
        if [ "$2" -gt 0 ]; then tail -c "$2" -- "$1"; fi
        head -c "$2" /dev/zero
    }} 2>/dev/null | head -c "$2"
}}
while [ $# -gt 0 ]; do
    number=$((number + 1)) offset=$1 directory=$2 report= output=
    shift 2
    for part in rank-0/ instance-0/ ''; do
        for name in result tare-result; do
            file=$directory/$part$name.jsonl
            if [ -z "$report" ] && is_own "$file"; then report=$file; fi
        done
        file=$directory/${{part}}output.txt
        if [ -z "$output" ] && is_own "$file"; then output=$file; fi
    done
    measure "$report"
    if [ "$offset" -gt "$bytes" ]; then offset=0; fi
    new=$((bytes - offset))
    if [ "$new" -gt {MOST_REPORT_BYTES} ]; then new={MOST_REPORT_BYTES}; fi
    measure "$output"
    if [ "$bytes" -gt {MOST_OUTPUT_BYTES} ]; then bytes={MOST_OUTPUT_BYTES}; fi
    printed=$bytes directory=${{directory%/*/*}} node= gpus=
    if is_own "$directory/samples/node.txt"; then node=$directory/samples/node.txt; fi
    if is_own "$directory/samples/gpus.csv"; then gpus=$directory/samples/gpus.csv; fi
    measure "$node"
    if [ "$bytes" -gt {MOST_NODE_BYTES} ]; then bytes={MOST_NODE_BYTES}; fi
    node_bytes=$bytes
    measure "$gpus"
    if [ "$bytes" -gt {MOST_GPU_BYTES} ]; then bytes={MOST_GPU_BYTES}; fi
    echo "$number $offset $new $printed $node_bytes $bytes"
    # Zeros in place of what has gone meanwhile: the answer has the length that it says.
    {{
        if [ "$new" -gt 0 ]; then tail -c "+$((offset + 1))" -- "$report" | head -c "$new"; fi
        head -c "$new" /dev/zero
    }} 2>/dev/null | head -c "$new"
    send_end "$output" "$printed"
    send_end "$node" "$node_bytes"
    send_end "$gpus" "$bytes"
done
exit 0
"""
HEADING = re.compile(rb"(\d{1,6}) (\d{1,18}) (\d{1,6}) (\d{1,4}) (\d{1,5}) (\d{1,5})\n")


@dataclass(frozen=True)
class LiveFiles:
    """What one run has written so far."""

    offset: int
    """Where `report` begins in its file, in bytes."""
    report: bytes
    output: str
    """The last MOST_OUTPUT_BYTES of what it has printed."""
    samples: Mapping[str, bytes] = field(default_factory=dict)
    """The last whole lines about its job's node, by the names of `node_samples.SAMPLES`."""


def read_live_files(transport: Transport, offsets: Mapping[str, int]) -> dict[str, LiveFiles]:
    """Return what runs have written, by their directory, with one remote command.

    `offsets` says for each how many bytes of its report are known; all have to fit into a command.
    Raises TryAgain.
    """
    runs = [argument for name, offset in offsets.items() for argument in (str(offset), name)]
    done = transport.run(["sh", "-c", LIVE, "live", *runs], timeout=LONGEST_SECONDS)
    if done.returncode != 0:
        message = clean_text(done.stderr).strip()
        raise TryAgain(f"Running programs cannot be watched: {message}", kind="busy")
    files = {}
    answer = io.BytesIO(done.stdout)
    for number, directory in enumerate(offsets, start=1):
        heading = HEADING.fullmatch(answer.readline(100))
        if not heading or int(heading[1]) != number:
            raise TryAgain("The answer about running programs was cut short.", kind="unreachable")
        offset, report_bytes, output_bytes = (int(heading[group]) for group in (2, 3, 4))
        report, output = answer.read(report_bytes), answer.read(output_bytes)
        ends = [answer.read(int(heading[group])) for group in (5, 6)]
        samples = {
            name: _cut_first_line(content.rstrip(b"\0"), limit)
            for name, content, limit in zip(
                SAMPLES, ends, (MOST_NODE_BYTES, MOST_GPU_BYTES), strict=True
            )
            if content
        }
        files[directory] = LiveFiles(offset, report, clean_text(output.rstrip(b"\0")), samples)
    return files


def _cut_first_line(content: bytes, limit: int) -> bytes:
    """Return the end of a file without its first line, which was cut where there was more."""
    return content.partition(b"\n")[2] if len(content) >= limit else content
