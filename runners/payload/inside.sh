#!/bin/sh
# What runs inside an environment beside the program, where outside.py records the run on the node:
# inside.sh START, by any POSIX shell. START sets variables, and the program with its arguments: not
# every runtime passes on an argument that is empty. `tare_marks` is a pipe to the recorder, to which
# each mark is written as "@NAME TEXT" and a NUL; the recorder has the clock. `tare_orders` is a pipe
# from it, and `tare_contents` one to it, for the contents of files. `tare_own` is where the program
# starts. If `tare_waits` is set, the recorder is waited for first; `tare_part` is a script to be read
# in place of a program. All variables begin with tare_, so that none of the program's is changed.

tare_marks='' tare_orders='' tare_contents='' tare_own='' tare_waits='' tare_part=''
# shellcheck source=/dev/null
. "$1" || exit
exec 9>"$tare_marks"
tare_mark() { printf '@%s\0' "$1${2+ $2}" >&9; }
# Say that something begins, and wait until the recorder has taken the time: where it wakes up late, two
# marks would have the same.
tare_begin() {
    tare_mark "$@"
    read -r tare_order <&8
}

# Print the file that a command starts.
tare_find() {
    case $1 in
        */*) if [ -f "$1" ] && [ -x "$1" ]; then printf '%s' "$1"; fi ;;
        *)
            tare_rest=$PATH:
            while [ -n "$tare_rest" ]; do
                tare_folder=${tare_rest%%:*} tare_rest=${tare_rest#*:}
                if [ -f "${tare_folder:-.}/$1" ] && [ -x "${tare_folder:-.}/$1" ]; then
                    printf '%s' "${tare_folder:-.}/$1"
                    return
                fi
            done
            ;;
    esac
}

# Answer what the recorder asks after the program: an order and two texts, a line each.
tare_answer() {
    while read -r tare_order <&8 && IFS= read -r tare_first <&8 && IFS= read -r tare_second <&8; do
        case $tare_order in
            find) tare_mark "answer $(tare_find "$tare_first")" ;;
            real) tare_mark "answer $(readlink -f "$tare_first" 2>/dev/null)" ;;
            file) if [ -f "$tare_first" ]; then tare_mark answer yes; else tare_mark answer; fi ;;
            exists) if [ -e "$tare_first" ]; then tare_mark answer yes; else tare_mark answer; fi ;;
            start)
                dd if="$tare_first" bs=256 count=1 >&7 2>/dev/null
                tare_mark answer
                ;;
            read)
                dd if="$tare_first" bs=1048576 count=1025 >&7 2>/dev/null ||
                    cat "$tare_first" >&7 2>/dev/null
                tare_mark "answer $?"
                ;;
            list)
                "$tare_first" --list "$tare_second" >&7 2>/dev/null </dev/null
                tare_mark answer
                ;;
            *) return ;;
        esac
    done
}

tare_mark started
exec 8<"$tare_orders" 7>"$tare_contents"
if [ -r /etc/os-release ]; then
    while IFS= read -r tare_line || [ -n "$tare_line" ]; do
        case $tare_line in PRETTY_NAME=*) tare_mark "os ${tare_line#*=}" ;; esac
    done </etc/os-release
fi
tare_mark "libc $(getconf GNU_LIBC_VERSION 2>/dev/null)"
for tare_file in /lib/ld-musl-*; do
    if [ -e "$tare_file" ]; then tare_mark "libc musl"; fi
done
for tare_file in /dev/nvidia[0-9]*; do
    if [ -e "$tare_file" ]; then tare_mark "gpu $tare_file"; fi
done
tare_mark variables # those that this shell was started with, each ended by a NUL
cat "/proc/$$/environ" >&9 2>/dev/null
if ! cd "$tare_own"; then exit 1; fi
tare_program=$(tare_find "$1")
if [ -z "$tare_program" ]; then
    tare_mark "missing $PATH"
    tare_answer
    exit 127
fi
tare_mark ready
if [ -n "$tare_waits" ]; then read -r tare_order <&8; fi

shift
set -- "$tare_program" "$@" # by its name a shell might start a command of its own
if [ -n "$tare_part" ]; then
    # shellcheck source=/dev/null
    . "$tare_part"
    tare_mark ended 0
    tare_answer
    exit 0
fi
export PYTHONPATH="$TARE_FILES${PYTHONPATH:+:$PYTHONPATH}"
tare_child='' tare_ended=''
trap 'tare_ended=yes; if [ -n "$tare_child" ]; then kill -TERM "$tare_child"; fi' TERM INT
tare_begin began
(exec "$@" </dev/null 9>&- 8<&- 7>&-) &
tare_child=$!
if [ -n "$tare_ended" ]; then kill -TERM "$tare_child"; fi # the signal came before there was a program
while true; do
    wait "$tare_child"
    tare_code=$?
    kill -0 "$tare_child" 2>/dev/null || break # else a signal has ended the wait, not the program
done
tare_mark "ended $tare_code"
tare_answer
exit "$tare_code"
