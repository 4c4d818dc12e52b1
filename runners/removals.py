"""The step that removes directories of ended jobs from a cluster's disk, on a compute node.

Of what lies there nothing is believed: the script removes directories that are named, right below
`<work directory>/jobs`, and follows no link.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runners.jobs import Step
from runners.untrusted import LARGEST, Table, Text, Whole, clean_text, parse_document

NAME = re.compile(r"[0-9a-f]{32}-[0-9]{1,9}\Z")
"""The name of a job's directory: its uid and its attempt."""
MOST_AT_A_TIME = 500
SCRIPT_NAME, LIST_NAME, RESULT_NAME = "remove.sh", "directories.txt", "result.json"
LONGEST_PROBLEM = 300  # characters

# Arguments: WORK DIRECTORY, LIST OF NAMES, FILE FOR THE RESULT, HASH OF TODAY'S PAYLOAD, DAYS.
# The result is written after each 20 directories and at the end, whoever ends this: what was
# removed is noted. A directory that is half removed is named in the next list again.
# `find` and `rm` stay on the file system of the directory. What may not be written to is made so.
SCRIPT = r"""export LC_ALL=C
work=$1 list=$2 result=$3 payload=$4 days=$5
removed='' gone='' failed='' payloads=0 portion=()
declare -A sizes

save() {
    printf '{"removed": {%s}, "gone": {%s}, "failed": {%s}, "payloads": %s}\n' \
        "${removed#,}" "${gone#,}" "${failed#,}" "$payloads" >"$result.part" &&
        mv -f "$result.part" "$result"
}
refuse() {
    echo "$1"
    save
    exit 1
}
leave_alone() {
    echo "$1: $2"
    failed+=",\"$1\": \"$(printf '%s' "$2" | tr -c "A-Za-z0-9 .,:;/_()'-" '?' | head -c 300)\""
}
trap 'note_removed; save; exit 143' TERM USR2

remove_payloads() {
    local folder
    [ ! -L "$work/payload" ] && cd "$work/payload" 2>/dev/null || return
    for folder in *; do
        if ! [[ $folder =~ ^[0-9a-f]{64}$ ]] || [ "$folder" = "$payload" ]; then continue; fi
        if [ -L "$folder" ] || [ ! -d "$folder" ]; then continue; fi
        # Each job that is sent with it, and each directory that goes, changes its number of links.
        if [ -z "$(find "$folder/.sha256sums" -ctime "+$days" 2>/dev/null)" ]; then continue; fi
        if rm -rf --one-file-system "./$folder"; then payloads=$((payloads + 1)); fi
    done
}

# Sort out the names of a portion: those that are no directories, or not there, need no removal.
choose() {
    local name
    portion=()
    for name; do
        if [ -L "$name" ]; then
            leave_alone "$name" "a link lies in its place, which is not followed"
        elif [ ! -e "$name" ]; then
            gone+=",\"$name\": 0"
        elif [ ! -d "$name" ]; then
            leave_alone "$name" "what lies in its place is no directory"
        else
            portion+=("$name") sizes[$name]=0
        fi
    done
}

# Note those of a portion that are not there any more, and keep the others in it.
note_removed() {
    local name rest=()
    for name in "${portion[@]}"; do
        if [ -e "$name" ] || [ -L "$name" ]; then
            rest+=("$name")
        else
            removed+=",\"$name\": ${sizes[$name]}"
        fi
    done
    portion=("${rest[@]}")
}

remove() {
    local name bytes why
    choose "$@"
    if [ "${#portion[@]}" -gt 0 ]; then
        while read -r name bytes; do sizes[$name]=$bytes; done < <(
            find "${portion[@]}" -xdev -type f -links 1 -printf '%H %b\n' 2>/dev/null |
                awk '{ bytes[$1] += $2 * 512 }
                    END { for (name in bytes) printf "%s %.0f\n", name, bytes[name] }'
        )
        rm -rf --one-file-system -- "${portion[@]}" 2>/dev/null
        note_removed
    fi
    for name in "${portion[@]}"; do
        find "$name" -xdev -type d ! -perm -u=rwx -exec chmod u+rwx {} \; 2>/dev/null
        why=$(rm -rf --one-file-system -- "$name" 2>&1 | head -n 1)
        if [ -e "$name" ]; then leave_alone "$name" "${why:-it is there still}"; fi
    done
    note_removed
    portion=()
    save
}

if [[ $work != /* ]] || [ ! -d "$work" ]; then refuse "there is no directory $work here"; fi
if [ -L "$work/jobs" ]; then refuse "$work/jobs is a link, which is not followed"; fi
if grep -qvxE '[0-9a-f]{32}-[0-9]{1,9}' "$list"; then refuse "a name in the list is no job's"; fi
remove_payloads
if [ -e "$work/jobs" ]; then
    cd "$work/jobs" && [ "$(pwd -P)" = "$(realpath "$work")/jobs" ] || refuse "no $work/jobs here"
else
    cd "${result%/*}" || exit # which holds none of them: all are gone
fi
mapfile -t names <"$list"
for ((first = 0; first < ${#names[@]}; first += 20)); do remove "${names[@]:first:20}"; done
save
"""

SHAPE = Table(
    {
        "removed": Table(others=Whole(0, LARGEST)),
        "gone": Table(others=Whole(0, 0)),
        "failed": Table(others=Text(LONGEST_PROBLEM)),
        "payloads": Whole(),
    }
)


@dataclass(frozen=True)
class Outcome:
    """What became of directories, by name. Those of which nothing is known are in none of these."""

    freed_bytes: Mapping[str, int]
    gone: frozenset[str]
    problems: Mapping[str, str]


def plan_removal(
    work_directory: str, names: Sequence[str], directory: str, payload: str, days: int
) -> tuple[tuple[Step, ...], tuple[tuple[str, bytes], ...]]:
    """Return the steps, and the files that they need, of a job in `directory` that removes `names`.

    With them go payloads that nothing has used for `days`, but for that with the hash `payload`.
    """
    if len(names) > MOST_AT_A_TIME or not all(map(NAME.match, names)):
        raise ValueError("not the names of directories of jobs, or too many of them")
    argv = (
        *("bash", f"{directory}/{SCRIPT_NAME}", work_directory, f"{directory}/{LIST_NAME}"),
        *(f"{directory}/{RESULT_NAME}", payload, str(days)),
    )
    listed = "".join(f"{name}\n" for name in names)
    files = ((SCRIPT_NAME, SCRIPT.encode()), (LIST_NAME, listed.encode()))
    return (Step(f"Removing {len(names)} directories of jobs", argv),), files


def read_outcome(result: bytes | None) -> Outcome:
    """Return what the script has written. Raises Damaged."""
    document = parse_document(result or b"{}", SHAPE)
    return Outcome(
        document.get("removed") or {},
        frozenset(document.get("gone") or {}),
        {name: clean_text(why) for name, why in (document.get("failed") or {}).items()},
    )
