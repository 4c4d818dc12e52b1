"""Many commands ("probes") run at the same time as one, each with limits of its own."""

import io
from collections.abc import Sequence
from dataclasses import dataclass

from runners.errors import TryAgain
from runners.transports.base import Completed
from runners.untrusted import clean_text

MARKER = b"--- tare preflight ---\n"  # separates what login profiles print from the answers
ERRORS_LIMIT = 16384  # bytes

# Arguments: set-up lines; then, for each probe, seconds, bytes, the number of arguments and these.
# A tool that hangs, or a child of it that keeps its output open, is ended after its time; one that
# prints without end is cut off.
PROBES = f"""eval "$1"
shift
export LC_ALL=C
folder=$(mktemp -d) || exit 73
trap 'rm -rf -- "$folder"' EXIT
probe() {{
    local at=$folder/$1 seconds=$2 limit=$3
    shift 3
    {{
        {{
            timeout --kill-after=1 "$seconds" "$@" </dev/null 2>&3 3>&-
            echo $? >"$at.code"
        }} | timeout "$((seconds + 2))" stdbuf -o0 head -c "$limit" >"$at.out"
    }} 3>&1 | timeout "$((seconds + 2))" stdbuf -o0 head -c {ERRORS_LIMIT} >"$at.err"
}}
number=0
while [ $# -gt 0 ]; do
    number=$((number + 1)) seconds=$1 limit=$2 count=$3
    shift 3
    probe "$number" "$seconds" "$limit" "${{@:1:count}}" &
    shift "$count"
done
wait
echo "{MARKER.decode().strip()}"
for ((index = 1; index <= number; index++)); do
    at=$folder/$index
    code=$(cat "$at.code" 2>/dev/null)
    echo "${{code:-126}} $(wc -c <"$at.out") $(wc -c <"$at.err")"
    cat "$at.out" "$at.err"
done
"""


@dataclass(frozen=True)
class Probe:
    """A command whose output is read, and its limits."""

    name: str
    argv: Sequence[str]
    seconds: int = 5
    limit: int = 65536  # bytes of its output that are kept


@dataclass(frozen=True)
class Answer:
    """The exit code and output of a probe, which may have been cut short."""

    code: int
    stdout: bytes
    stderr: bytes
    seconds: int = 0

    @property
    def text(self) -> str:
        return clean_text(self.stdout).strip()

    @property
    def message(self) -> str:
        """Return the text that it printed on stderr, else on stdout."""
        complaint = clean_text(self.stderr).strip()
        return complaint or self.text

    @property
    def completed(self) -> Completed:
        return Completed(self.code, self.stdout, self.stderr)

    @property
    def why_no_answer(self) -> str:
        """Return why this is no answer, to follow the tool's name; empty if it is one."""
        if self.code in (124, 137):
            return f"did not end in {self.seconds} s"
        if self.code == 127:
            return "is not there"
        if self.code == 126:
            return "cannot be started"
        if self.text[:500].lower().lstrip("\ufeff").startswith(("<!doctype", "<html", "<?xml")):
            return "answered with a web page"
        return ""


def build_command(probes: Sequence[Probe], *, setup_lines: Sequence[str] = ()) -> list[str]:
    """Return the arguments after `bash -c` (or `-lc`) that run all probes at once."""
    arguments = ["\n".join(setup_lines).replace("\r", "")]
    for probe in probes:
        arguments += [str(probe.seconds), str(probe.limit), str(len(probe.argv)), *probe.argv]
    return [PROBES, "probes", *arguments]


def compute_time_limit(probes: Sequence[Probe]) -> int:
    """Return the most seconds that all probes may take together."""
    return max((probe.seconds for probe in probes), default=0) + 3


def parse_answers(probes: Sequence[Probe], printed: bytes) -> tuple[dict[str, Answer], str]:
    """Return the answers by name, and what was printed before them.

    TryAgain if the answers are not complete.
    """
    noise, marker, content = printed.partition(MARKER)
    if not marker:
        raise TryAgain("What came back are no answers.", kind="unreachable")
    stream, read = io.BytesIO(content), {}
    for probe in probes:
        try:
            code, out, err = (int(number) for number in stream.readline().split())
        except ValueError:
            raise TryAgain("The answers were cut short.", kind="unreachable") from None
        if min(out, err) < 0:
            raise TryAgain("The answers were cut short.", kind="unreachable")
        answer = Answer(code, stream.read(out), stream.read(err), probe.seconds)
        if len(answer.stdout) < out or len(answer.stderr) < err:
            raise TryAgain("The answers were cut short.", kind="unreachable")
        read[probe.name] = answer
    return read, clean_text(noise).strip()
