# Read by inside.sh for the workload `startup`, recorded outside: the arguments are a program. In each
# of `tare_steps` steps it is started once, and then `true` as often as `tare_forks` says. The
# recorder begins each step by an order; all marks get their time from its clock.
# shellcheck shell=sh disable=SC2034,SC2154

tare_true=$(tare_find true) # a file: the shell may have one of its own
if [ -z "$tare_true" ]; then tare_forks=0; fi
while [ "$tare_steps" -gt 0 ] && read -r tare_order <&8; do
    tare_begin part program
    "$@" >/dev/null </dev/null 9>&- 8<&- 7>&-
    tare_code=$?
    tare_mark part
    if [ "$tare_code" -ne 0 ]; then
        tare_mark "wrong $tare_code"
        break
    fi
    if [ "$tare_forks" -gt 0 ]; then
        tare_count=0
        tare_begin part forks
        while [ "$tare_count" -lt "$tare_forks" ]; do
            "$tare_true"
            tare_count=$((tare_count + 1))
        done
        tare_mark part
    fi
    tare_mark step
    tare_steps=$((tare_steps - 1))
done
