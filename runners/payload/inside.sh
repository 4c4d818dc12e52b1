#!/bin/sh
# All that runs inside an environment beside the program, where outside.py records the run on the
# node: inside.sh START, by any POSIX shell. START sets variables, and the program with its arguments:
# not every runtime passes on an argument that is empty. `marks` is a pipe to the recorder, to which
# each mark is written as "@NAME TEXT" and a NUL; the recorder has the clock. `go` is a pipe from it,
# to be waited for before the program starts, or empty; `own` is where it starts.

marks='' go='' own=''
# shellcheck source=/dev/null
. "$1" || exit
exec 9>"$marks"
mark() { printf '@%s\0' "$*" >&9; }

mark started
if [ -r /etc/os-release ]; then
    while IFS= read -r line || [ -n "$line" ]; do
        case $line in PRETTY_NAME=*) mark "os ${line#*=}" ;; esac
    done </etc/os-release
fi
mark "libc $(getconf GNU_LIBC_VERSION 2>/dev/null)"
for file in /lib/ld-musl-*; do
    if [ -e "$file" ]; then mark "libc musl"; fi
done
for file in /dev/nvidia[0-9]*; do
    if [ -e "$file" ]; then mark "gpu $file"; fi
done
mark variables # those that this shell was started with, each ended by a NUL
cat "/proc/$$/environ" >&9 2>/dev/null
mark ready
if [ -n "$go" ]; then read -r line <"$go"; fi

cd "$own" || exit
if ! command -v "$1" >/dev/null 2>&1; then
    mark "missing $PATH"
    exit 127
fi
export PYTHONPATH="$TARE_FILES${PYTHONPATH:+:$PYTHONPATH}"
child='' ended=''
trap 'ended=yes; if [ -n "$child" ]; then kill -TERM "$child"; fi' TERM INT
mark began
(exec "$@" </dev/null 9>&-) &
child=$!
if [ -n "$ended" ]; then kill -TERM "$child"; fi # the signal came before there was a program
while true; do
    wait "$child"
    code=$?
    kill -0 "$child" 2>/dev/null || break # else a signal has ended the wait, not the program
done
mark "ended $code"
exit "$code"
