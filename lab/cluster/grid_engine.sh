#!/bin/bash
# Starts Grid Engine beside Slurm, where start.sh finds it installed: qmaster and one node of 8 slots and 4
# stand-in GPUs, the queues main.q and short.q, the parallel environment smp. LAB_PORT +3 and +4 are its ports.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
port=${LAB_PORT:-27000}
common=/var/lib/gridengine/default/common
name=$(hostname)

wait_for() { # SECONDS COMMAND...
  local tries=$(($1 * 20))
  until "${@:2}" >/dev/null 2>&1; do
    if [ $((tries--)) -le 0 ]; then
      echo "grid_engine: no answer within $1 s from: ${*:2}" >&2
      return 1
    fi
    sleep 0.05
  done
}

as_admin() { timeout 10 setpriv --reuid sgeadmin --regid sgeadmin --init-groups -- "$@"; }

# An entry of Grid Engine's on standard input, with these values instead of its own. ["NAME VALUE"]...
with() {
  awk -v values="$(printf '%s\n' "$@")" '
    BEGIN { count = split(values, lines, "\n"); for (i = 1; i <= count; i++) { split(lines[i], words, " "); new[words[1]] = lines[i] } }
    { print ($1 in new) ? new[$1] : $0 }'
}

# Where the clients of every user look for the ports.
sed "s|^\(sge-qmaster\s*\)[0-9]*/|\1$((port + 3))/|; s|^\(sge-execd\s*\)[0-9]*/|\1$((port + 4))/|" \
  /etc/services >/run/services
cat /run/services >/etc/services
echo "$name" >$common/act_qmaster
printf 'localhost %s\n' "$name" >$common/host_aliases
install -d -o sgeadmin /run/gridengine

cd /
as_admin /usr/sbin/sge_qmaster
wait_for 20 as_admin qconf -sh
if [ "${1-}" = qmaster ]; then exit; fi # only that one is to be started again

if ! as_admin qconf -sq short.q >/dev/null 2>&1; then
  entries=$(mktemp -d)
  chmod 755 "$entries"
  cd "$entries"
  for list in -ah -as; do as_admin qconf $list localhost; done
  printf '%s\n' 'hostname localhost' 'load_scaling NONE' 'complex_values gpu=4' 'user_lists NONE' \
    'xuser_lists NONE' 'projects NONE' 'xprojects NONE' 'usage_scaling NONE' 'report_variables NONE' >host
  printf '%s\n' 'pe_name smp' 'slots 999' 'user_lists NONE' 'xuser_lists NONE' 'start_proc_args NONE' \
    'stop_proc_args NONE' "allocation_rule \$pe_slots" 'control_slaves FALSE' 'job_is_first_task TRUE' \
    'urgency_slots min' 'accounting_summary FALSE' 'qsort_args NONE' >pe
  # Counted for the whole job, whatever its slots.
  { as_admin qconf -sc; echo 'gpu gpu INT <= YES JOB 0 0'; } >complexes
  as_admin qconf -sq | with 'qname main.q' 'hostlist localhost' 'slots 8' 'pe_list smp' 'load_thresholds NONE' \
    'notify 00:00:20' "prolog root@$here/gpus.sh take" "epilog root@$here/gpus.sh give" >main.q
  with 'qname short.q' 'h_rt 00:02:00' <main.q >short.q
  # The scheduler looks at once when a job comes or goes, not every 15 s only.
  as_admin qconf -ssconf | with 'schedule_interval 0:0:2' 'flush_submit_sec 1' 'flush_finish_sec 1' >scheduler
  # Accounting is written a second after a job has ended, not up to 15.
  as_admin qconf -sconf | with 'load_report_time 00:00:05' \
    'reporting_params accounting=true reporting=false flush_time=00:00:01 joblog=false sharelog=00:00:00' >global
  as_admin qconf -Mc complexes
  as_admin qconf -Ae host
  as_admin qconf -Ap pe
  as_admin qconf -Aq main.q
  as_admin qconf -Aq short.q
  as_admin qconf -Msconf scheduler
  as_admin qconf -Mconf global
  cd /
fi

/usr/sbin/sge_execd
