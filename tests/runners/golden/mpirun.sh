#!/bin/bash -l
# shellcheck disable=SC2016,SC2054 # what is quoted here is to stay as it is
# shellcheck disable=SC2034,SC2154,SC2329 # what runs set, and call, a job of steps does not
#SBATCH --job-name=tare-5a3f-1
#SBATCH '--chdir=/scratch/jo'"'"'s work/jobs/5a3f-1'
#SBATCH --output=scheduler-%j.out
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=4
#SBATCH --time=11
#SBATCH --no-requeue
#SBATCH --export=NONE
#SBATCH --gres=gpu:2
#SBATCH --mem=16000M
#SBATCH --partition=gpu
#SBATCH --account=physics
# --export=NONE keeps the submitter's variables out, but would starve srun here.
unset SLURM_EXPORT_ENV
# A job that has the node alone may be given all GPUs: it sees as many as it asked for.
if [ -n "${CUDA_VISIBLE_DEVICES-}" ]; then
    CUDA_VISIBLE_DEVICES=$(cut -d, -f-2 <<<"$CUDA_VISIBLE_DEVICES")
fi

# The runs of one block, one after the other, on one node, each with its record. People typed
# what is quoted below; only the set-up lines are shell, and administrators wrote those.

job='/scratch/jo'"'"'s work/jobs/5a3f-1'
job_id="$SLURM_JOB_ID"
node=${SLURMD_NODENAME:-$(hostname)}
node=${node//[^[:alnum:]._-]/_}
terminated=

# --- What the runs share ------------------------------------------------------------------------

# On a full node each process that is started costs milliseconds, so that what bash can do is done by bash.

# Set `moment` to the seconds since 1970. Bash knows them since 5.0, with the comma of some languages.
now() {
    moment=${EPOCHREALTIME/,/.}
    moment=${moment:-$(date +%s.%6N)}
}

# Append a line of JSON to the journal. EVENT [MORE MEMBERS]
journal() {
    local moment
    now
    printf '{"time": %s, "event": "%s", "node": "%s"%s}\n' \
        "$moment" "$1" "$node" "${2-}" >>"$job/journal.ndjson"
}

# Append a line about the run, with the seconds since the node was started: nobody sets these. EVENT
journal_run() {
    local uptime=null
    read -r uptime _ </proc/uptime
    journal "$1" ", \"run\": \"$uid\", \"uptime\": ${uptime:-null}"
    read_cpu_energy
} 2>/dev/null

# Put TEXT into FILE, wholly or not at all: whoever finds the file can believe it. FILE TEXT
leave() {
    printf '%s\n' "$2" >"$1.part" && mv -f "$1.part" "$1"
}

# Of all copies of this job (a submission whose answer was lost, a requeue) one goes on. It is
# the one that makes the hard link, which names it; the others leave without touching anything.
# Where NFS reports a link that it made as failed, the number of links tells who it was.
# Tare makes the link itself where the scheduler has lost the job (runners/claims.py).
claim() {
    local mine="$job/.claim-$node-$$" links=2
    # Slurm makes a directory that was deleted anew, for the output of the job.
    if [ ! -f "$job/job.sh" ]; then
        echo "The files of this job are no longer in $job: nothing is run."
        exit 66
    fi
    printf '%s\n' "$job_id" >"$mine" || exit 73
    ln "$mine" "$job/started" 2>/dev/null || links=$(stat -c %h "$mine")
    rm -f "$mine"
    if [ "$links" = 2 ]; then return; fi
    if [ -e "$job/started" ]; then
        if grep -qs '^tare:' "$job/started"; then
            echo "Tare has claimed these runs while nothing knew of job $job_id: it steps aside."
        else
            echo "Job $(cat "$job/started") has started these runs; job $job_id steps aside."
        fi
        exit 0
    fi
    echo "There are no hard links in $job, and nothing else says safely who may start."
    exit 71
}

# The scheduler ends the job (cancelled, or out of time) with TERM, or warns with USR2: say so while
# there is time, and pass it on to what runs now.
terminate() {
    local child
    trap '' TERM USR2
    terminated=yes
    journal terminated
    : >"$job/.terminated" # before it looks for a program: one that begins now looks for this
    if read -r child <"$job/.process"; then kill -TERM "$child"; fi 2>/dev/null
}

# Wait until a child of this script has ended, whatever signals come in between. PID
await() {
    while kill -0 "$1" 2>/dev/null; do
        wait "$1"
    done
}

# A fact about this node that a file tells. NAME FILE
copy() {
    local text
    IFS= read -r -d '' text <"$2"
    if [ -n "$text" ]; then printf '%s' "$text" >"$job/snapshot/$1"; fi
} 2>/dev/null

# A fact about this node, as text; a tool that is not there says nothing. NAME COMMAND...
fact() {
    if command -v "$2" >/dev/null; then
        timeout 20 "${@:2}" >"$job/snapshot/$1" 2>&1
    fi
}

# The run is worth nothing, and why. TEXT
fail() {
    echo "$1"
    leave "$directory/failure" "$1"
    exit 1
}

# Execute the program of the run, if everything that it needs is there.
execute() {
    local began code
    trap 'terminated=yes' TERM USR2 # for this subshell, which stays; what it starts is ended as usual
    eval "$setup" || fail "set-up failed (exit code $?)"
    if [ -n "${LOADEDMODULES-}" ]; then # names, then files, of environment modules outside
        printf '%s\n' "$LOADEDMODULES" "${_LMFILES_-}" >"$directory/loaded_modules"
    fi
    if [ -n "$runtime" ]; then
        command -v "$runtime" >/dev/null || fail "runtime missing: $node has no $runtime"
    fi
    "${present[@]}" >/dev/null || fail "image missing: $image"
    "${version[@]}" >"$directory/runtime_version" 2>&1
    program=("${variables[@]}" "${program[@]}")
    printf '%q ' "${launch[@]}" "${wall[@]}" /usr/bin/env "${program[@]}" >"$directory/command"
    cd "$directory" || fail "directory missing: $directory"
    make_ready
    hand_on process
    if [ -n "$terminated" ]; then return; fi
    count_energy before
    journal_run "run began"
    began=$SECONDS
    exec 2>/dev/null # what bash remarks on signals is none of the program's output
    ( # `timeout` leads a process group, so that TERM reaches all that the program starts
        trap - TERM
        echo "$BASHPID" >"$job/.process"
        if [ -e "$job/.terminated" ]; then exit 143; fi # the signal came before there was a program
        now
        exec timeout --kill-after=10 "$limit" "${launch[@]}" bash -l "$directory/process.sh" 2>&1
    )
    code=$?
    trap '' TERM USR2 # from here on nothing waits for anything
    if [ -z "$terminated" ]; then journal_run "program ended"; fi
    : >"$job/.process"
    if [ "$limit" -gt 0 ] && [ $((SECONDS - began)) -ge "$limit" ]; then
        fail "time limit reached: the run was ended after $limit s"
    fi
    leave "$directory/exit_code" "$code"
    count_energy after
}

# End what the run has left on the node, so that the next one has it to itself. Runtimes put programs
# into sessions, namespaces and daemons that no signal follows, but their variables stay.
sweep() {
    local left
    for _ in 1 2 3; do
        mapfile -t left < <(
            exec grep -lzxF "TARE_RUN=$directory" /proc/[0-9]*/environ 2>/dev/null
        )
        if [ "${#left[@]}" = 0 ]; then return; fi
        left=("${left[@]#/proc/}")
        left=("${left[@]%/environ}")
        journal "left behind" ", \"run\": \"$uid\", \"processes\": ${#left[@]}"
        kill -KILL "${left[@]}" 2>/dev/null
        # Told to end is not ended yet. Not for ever: what waits for a disk hears no signal.
        for _ in {1..50}; do
            (cd /proc && grep -qs '^State:.[^ZX]' "${left[@]/%//status}") || break
            sleep 0.1
        done
    done
}

# One run. However it ends, the next one follows. UID DIRECTORY
run() {
    local uid=$1 directory="$job/$2" code=null
    if [ -n "$terminated" ]; then return; fi
    execute >"$directory/output.txt" 2>&1 &
    await "$!"
    sweep
    if [ -e "$directory/.scratch" ]; then # of a program that was ended before it could clean up
        rm -rf "$directory/.scratch"
    fi
    sweep_elsewhere
    clear_away
    if [ -e "$directory/exit_code" ]; then read -r code <"$directory/exit_code"; fi
    journal "run ended" ", \"run\": \"$uid\", \"exit_code\": $code"
}

# One step of an operation; the first that fails ends it. MORE MEMBERS OF THE JOURNAL'S LINE, COMMAND...
step() {
    local code
    if [ -n "$terminated" ]; then exit; fi
    journal step "$1"
    ( # leads a process group, so that TERM reaches all that the command starts
        trap - TERM
        echo "$BASHPID" >"$job/.process"
        if [ -e "$job/.terminated" ]; then exit 143; fi
        exec timeout --kill-after=10 0 "${@:2}" 2>&1
    )
    code=$?
    : >"$job/.process"
    if [ "$code" = 0 ] || [ -n "$terminated" ]; then return; fi
    leave "$job/failure.json" "{\"exit_code\": $code$1}"
    exit
}

# The steps of an operation, one after the other.
operation() {
    {
        trap 'terminated=yes' TERM USR2 # for this subshell, which stays
        cd "$job" || exit
        if eval "$setup"; then steps; else leave "$job/failure.json" "{\"exit_code\": $?}"; fi
    } >"$job/output.txt" 2>&1 &
    await "$!"
}

# Let the node cool down between runs. SECONDS
cool_down() {
    if [ -n "$terminated" ]; then return; fi
    journal cool-down ", \"seconds\": $1"
    sleep "$1" &
    echo "$!" >"$job/.process"
    await "$!"
    : >"$job/.process"
}

# Pass on names of files until 1 GiB or 20,000 of them are together: to sum up checkpoints is not worth
# holding an allocation for. Reads "ORDER SIZE NAME" and writes names, each ended by NUL.
within_reason() {
    local line count=0 bytes=0
    while IFS= read -r -d '' line; do
        line=${line#* }
        count=$((count + 1)) bytes=$((bytes + ${line%% *}))
        if [ "$count" -gt 20000 ] || [ "$bytes" -gt 1073741824 ]; then return; fi
        printf '%s\0' "${line#* }"
    done
}

# End the job where it was given GPUs and the node's own tool finds none: nothing can be measured there.
# Of fewer than requested nothing is known here: parts of a GPU are counted in other ways. COUNT
require_gpus() {
    local said="$job/snapshot/nvidia-smi"
    if [ "$1" = 0 ] || [ ! -e "$said" ] || grep -q '^GPU [0-9A-Fa-f]' "$said"; then return; fi
    said=$(grep -v '^ *$' "$said" | tail -n 1)
    leave "$job/failure" "no GPU: $node: nvidia-smi says: ${said:-nothing within 20 s}"
    finish 1
}

# Write the check sums of the files that FIND_EXPRESSION lists, of at most 200 with at most 1 GiB and of
# names without line feeds; say no to others. FIND_EXPRESSION...
sum_up_few() {
    local lines line names=() bytes=0
    mapfile -t -n 201 lines < <(
        exec find "$@" \( -path $'*\n*' -printf 'odd\n' -o -printf '%s %p\n' \)
    )
    for line in "${lines[@]}"; do
        if [ "$line" = odd ]; then return 1; fi
        bytes=$((bytes + ${line%% *}))
        names+=("${line#* }")
    done
    [ "${#names[@]}" -le 200 ] && [ "$bytes" -le 1073741824 ] || return
    if [ "${#names[@]}" = 0 ]; then return; fi
    sha256sum "${names[@]}"
    return 0
}

# Write the check sums of what FIND_EXPRESSION lists: what the numbers come from first, then the smallest,
# as far as is within reason. FIND_EXPRESSION...
sum_up_many() {
    local ours='.*/\(output\.txt\|exit_code\|command\|failure\|runtime_version\|loaded_modules\|.*\.jsonl?\)'
    find "$@" \( -regex "$ours" -size -131072k -printf '0 %s %p\0' -o -printf '1 %s %p\0' \) |
        sort -z -k 1,1n -k 2,2n | within_reason | xargs -0 -r sha256sum
}

# --- Samples of the node ------------------------------------------------------------------------

samplers=() # processes that `finish` ends

powercap=/sys/class/powercap
cpu_packages=() # folders with the energy counter of a CPU package, each with the counter's range

# Choose the counters that this user may read: of whole packages, which contain those of their parts.
choose_cpu_counters() {
    local place name most
    for place in "$powercap"/intel-rapl:[0-9] "$powercap"/intel-rapl:[0-9][0-9]; do # of AMD's too
        name='' most=''
        read -r name <"$place/name"
        read -r most <"$place/max_energy_range_uj"
        if [[ $name == package-* ]] && [ -n "$most" ] && read -r _ <"$place/energy_uj"; then
            cpu_packages+=("$place $most")
        fi
    done
} 2>/dev/null

# Append a line to samples/rapl.txt: the time, and of each package its counter in µJ and its range.
read_cpu_energy() {
    local package count moment line=''
    if [ "${#cpu_packages[@]}" = 0 ]; then return; fi
    now
    for package in "${cpu_packages[@]}"; do
        read -r count <"${package% *}/energy_uj" || return
        line+=" $count/${package##* }"
    done
    printf '%s%s\n' "$moment" "$line" >>"$job/samples/rapl.txt"
} 2>/dev/null

cgroups=/sys/fs/cgroup
own_cgroups=/proc/self/cgroup
own_counter='' # the file that tells how much CPU time this job has used, all its processes together

# Choose that file: of the cgroup that Slurm keeps for this job alone. Where it keeps none, others of the
# node may be in the same one, and nothing is told of either.
choose_own_counter() {
    local controllers path place places name
    if [ -z "${SLURM_JOB_ID-}" ]; then return; fi
    while IFS=: read -r _ controllers path; do
        case ,$controllers, in
            ,,) places=("$cgroups" "$cgroups/unified") name=cpu.stat ;;
            *,cpuacct,*) places=("$cgroups/$controllers" "$cgroups/cpuacct") name=cpuacct.usage ;;
            *) continue ;;
        esac
        if [[ ! $path/ =~ ^(.*/job_$SLURM_JOB_ID)/ ]]; then continue; fi
        path=${BASH_REMATCH[1]}
        for place in "${places[@]}"; do
            if read -r _ <"$place$path/$name"; then
                own_counter=$place$path/$name
                return
            fi
        done
    done <"$own_cgroups"
} 2>/dev/null

# Set `own` to a blank and the microseconds of CPU time that this job has used; empty where nothing tells.
read_own_time() {
    local name count=''
    own=''
    if [ -z "$own_counter" ]; then return; fi
    read -r name count _ <"$own_counter" # usage_usec MICROSECONDS, or NANOSECONDS alone
    if [ -n "$count" ]; then own=" $count"; elif [ -n "$name" ]; then own=" $((name / 1000))"; fi
} 2>/dev/null

# Append a line to samples/node.txt every SECONDS, until this script has ended: the time, ticks that the
# CPUs were busy, all their ticks, memory and swap in use and all memory in KiB, pages that went to swap
# or came from it, the load, and where it is known the CPU time of this job in microseconds. Bash reads
# these itself: nothing is started for a sample. SECONDS, THE PROCESS THAT SAMPLES GPUS
sample_node() {
    local moment text pause user nice system idle wait interrupts soft stolen load own
    local total available memory swap free_swap swapped paged
    trap '' TERM USR2 # it goes on while the job ends
    exec {pause}<> <(:) # nothing ever comes out of it: to read it is to wait
    while true; do
        read -r text </proc/self/stat
        text=${text##*) ? }
        if [ "${text%% *}" != "$$" ]; then break; fi # it has another parent: the script was killed
        moment=${EPOCHREALTIME/,/.}
        if [ -z "$moment" ]; then printf -v moment '%(%s)T' -1; fi
        read -r _ user nice system idle wait interrupts soft stolen _ </proc/stat
        read_own_time
        user=$((user + nice + system + interrupts + soft + stolen))
        IFS= read -r -d '' text </proc/meminfo
        total='' available='' swap='' free_swap='' paged='' load=''
        if [[ $text =~ MemTotal:\ +([0-9]+) ]]; then total=${BASH_REMATCH[1]}; fi
        if [[ $text =~ MemAvailable:\ +([0-9]+) ]]; then available=${BASH_REMATCH[1]}; fi
        if [[ $text =~ SwapTotal:\ +([0-9]+) ]]; then swap=${BASH_REMATCH[1]}; fi
        if [[ $text =~ SwapFree:\ +([0-9]+) ]]; then free_swap=${BASH_REMATCH[1]}; fi
        IFS= read -r -d '' text </proc/vmstat
        if [[ $text =~ pswpin\ ([0-9]+).pswpout\ ([0-9]+) ]]; then
            paged=$((BASH_REMATCH[1] + BASH_REMATCH[2]))
        fi
        read -r load _ </proc/loadavg
        memory=- swapped=-
        if [ -n "$available" ]; then memory=$((total - available)); fi
        if [ -n "$free_swap" ]; then swapped=$((swap - free_swap)); fi
        printf '%s %s %s %s %s %s %s %s%s\n' "$moment" "$user" "$((user + idle + wait))" \
            "$memory" "${total:--}" \
            "$swapped" "${paged:--}" "${load:--}" "$own" \
            >>"$job/samples/node.txt"
        read_cpu_energy
        read -r -t "$1" -u "$pause"
    done
    # Another process may have the number of one that has ended.
    if [ -n "${2-}" ] && grep -qszxF "TARE_SAMPLES=$job" "/proc/$2/environ"; then kill -KILL "$2"; fi
}

# Set `index` to the number of the GPU whose UUID begins with TEXT; false unless there is exactly one. TEXT
find_uuid() {
    local number text=${1:0:40} matches=0
    for number in "${!uuids[@]}"; do
        if [ -n "${text#GPU-}" ] && [[ ${uuids[number],,} == "${text,,}"* ]]; then
            index=$number matches=$((matches + 1))
        fi
    done
    [ "$matches" = 1 ]
}

# Set `index` to the number of the GPU that an instance (MIG) is a part of. NAME
find_instance() {
    local line gpu='' matches=0
    if [[ $1 == MIG-GPU-* ]]; then # as drivers before 470 name it: MIG-GPU-UUID/INSTANCE/INSTANCE
        line=${1#MIG-}
        find_uuid "${line%%/*}"
        return
    fi
    while IFS= read -r line; do
        if [[ $line =~ ^GPU\ ([0-9]+): ]]; then gpu=${BASH_REMATCH[1]}; fi
        if [[ $line =~ UUID:\ (MIG-[^\)]+) ]] && [[ ${BASH_REMATCH[1],,} == "${1,,}"* ]]; then
            index=$gpu matches=$((matches + 1))
        fi
    done < <(timeout 20 nvidia-smi -L 8>&- 9>&-)
    [ "$matches" = 1 ]
} 2>/dev/null

# Set `index` to the number of the GPU that NAME means to CUDA; false if it means none. NAME
find_gpu() {
    index=''
    if [[ $1 =~ ^[[:space:]]*\+?([0-9]{1,9}) ]]; then
        index=$((10#${BASH_REMATCH[1]}))
        [ "$index" -lt "${#uuids[@]}" ]
    elif [[ $1 == MIG-?* ]]; then
        find_instance "$1" && divided=yes
    else
        [[ $1 == GPU-?* ]] && find_uuid "$1"
    fi
}

# Set `chosen` to the options of nvidia-smi that name the GPUs which CUDA shows to the job, `given` to no
# where it shows none, and `divided` to yes where one of them is divided among jobs (MIG). CUDA ends its
# list before the first name that means no GPU, and shows none where one is named twice. The tool takes
# numbers and whole UUIDs alone.
choose_gpus() {
    local line name names=() uuids=() parts=() index ids='' count=0
    chosen=() given=yes divided=''
    while IFS= read -r line; do
        case $line in
            GPU\ *) uuids[count]='' count=$((count + 1)) ;;
            *GPU\ UUID*) uuids[count - 1]=${line##* } ;;
            *Current*Enabled*) parts[count - 1]=yes ;; # the line after "MIG Mode"
        esac
    done < <(grep -A 1 -e '^GPU [0-9A-Fa-f]' -e '^ *GPU UUID ' -e '^ *MIG Mode *$' \
        "$job/snapshot/nvidia-smi")
    if [ -z "${CUDA_VISIBLE_DEVICES+set}" ]; then
        if [ "${#parts[@]}" -gt 0 ]; then divided=yes; fi
        return
    fi
    IFS=, read -r -a names <<<"$CUDA_VISIBLE_DEVICES"
    for name in "${names[@]}"; do
        find_gpu "$name" || break
        if [ -n "${parts[index]-}" ]; then divided=yes; fi
        if [[ $ids, != *",$index,"* ]]; then
            ids+=,$index
        elif [[ $name != MIG-* ]]; then
            ids=''
            break
        fi
    done
    if [ -n "$ids" ]; then chosen=("--id=${ids#,}"); else given=no; fi
} 2>/dev/null

# Become the node's own tool, which writes a line for each GPU of the job every SECONDS. Of a divided GPU
# it tells no use, and memory and power of all its parts together: they are not asked for. SECONDS
sample_gpus() {
    local reasons=clocks_throttle_reasons fields totals=memory.used,power.draw
    trap '' TERM USR2
    if [ -n "$divided" ]; then totals=mig.mode.current,mig.mode.current; fi
    if grep -q 'Clocks Event Reasons' "$job/snapshot/nvidia-smi"; then # its name since 2023
        reasons=clocks_event_reasons
    fi
    fields=timestamp,index,utilization.gpu,$totals,clocks.sm,temperature.gpu
    export TZ=UTC0 TARE_SAMPLES="$job"
    exec nvidia-smi "${chosen[@]}" --query-gpu="$fields,$reasons.active" \
        --format=csv,noheader,nounits --loop="$1"
}

energy=() # the command that prints the energy counters of the job's GPUs as JSON; empty: none does

# Choose that command: the node's own Python and driver, with the variables that this script began with.
choose_energy_counter() {
    local python
    if [ -n "$divided" ] || ! python=$(command -v python3); then return; fi
    energy=(timeout 10 env -i "LD_LIBRARY_PATH=${LD_LIBRARY_PATH-}" "$python" -I -S
        "$job/payload/gpu_energy.py" "${chosen[@]#--id=}")
}

# Write the counters into the journal, outside of the time that is measured. before|after
count_energy() {
    local text
    if [ "${#energy[@]}" = 0 ] || [ -n "$terminated" ] || [ -e "$job/.no-energy" ]; then return; fi
    text=$("${energy[@]}" 8>&- 9>&-)
    if [[ $text =~ ^\{[0-9\":,\ ]+\}$ ]]; then
        journal "counters $1" ", \"run\": \"$uid\", \"gpu_millijoules\": $text"
    else
        : >"$job/.no-energy" # it is not asked again
    fi
} 2>/dev/null

# Begin to sample this node and the GPUs that `choose_gpus` has chosen. Whatever is the matter with
# samples, no run hears of it, and no file of the queue stays open because of them. SECONDS
begin_samples() {
    mkdir -p "$job/samples" || return
    choose_cpu_counters
    choose_own_counter
    if ! grep -qs '^GPU [0-9A-Fa-f]' "$job/snapshot/nvidia-smi"; then
        : # the node has none
    elif [ "$given" = no ]; then
        case $CUDA_VISIBLE_DEVICES in
            '' | -1 | NoDevFiles) ;; # so is said that the job has none
            *) echo "CUDA_VISIBLE_DEVICES names no GPU of this node: $CUDA_VISIBLE_DEVICES" \
                >"$job/samples/gpus.csv" ;;
        esac
    else
        sample_gpus "$1" >"$job/samples/gpus.csv" 2>&1 8>&- 9>&- &
        samplers=("$!")
        choose_energy_counter
    fi
    sample_node "$1" "${samplers[@]}" >/dev/null 2>&1 8>&- 9>&- &
    samplers=("$!" "${samplers[@]}")
}

# End what samples. A tool that hangs in its driver is not waited for; of one that has ended, another
# process may have the number, which is no child of this script.
end_samples() {
    local sampler text
    if [ "${#samplers[@]}" = 0 ]; then return; fi
    for sampler in "${samplers[@]}"; do
        if ! read -r text <"/proc/$sampler/stat"; then continue; fi
        text=${text##*) ? }
        if [ "${text%% *}" = "$$" ]; then kill -KILL "$sampler"; fi
    done
    wait "${samplers[0]}"
} 2>/dev/null

# List files with their check sums, then say that the record is complete. Hidden files are caches, and
# the payload has a list of its own. EXIT CODE
finish() {
    local listed
    trap '' TERM USR2
    journal "job ended" ", \"exit_code\": $1"
    exec >/dev/null 2>&1 # the login shell's farewell must not change what is listed
    end_samples
    # A program may have made a directory anew that was deleted: it has no claim, and is no record.
    cd "$job" && [ -e started ] || exit
    listed=(. -path ./payload -prune -o
        -type f ! -path './scheduler*' ! -path '*/.*' ! -name '*.part')
    { sum_up_few "${listed[@]}" || sum_up_many "${listed[@]}"; } >sha256sums.part
    mv -f sha256sums.part sha256sums # a file that cannot be read takes only itself off the list
    leave exit_code "$1" || exit 73
    exit "$1"
}

# --- Several processes of one run ---------------------------------------------------------------

launcher=mpirun # empty: this script starts the instances of a packed run itself
nodes=2
processes=4 # of a run, on all nodes together
on_a_node=2
gpus=2 # of each node, or of each instance

# Write the names of all nodes of the job into the journal, if the scheduler tells them.
name_nodes() {
    local names=() name text=''
    if [ -n "${SLURM_JOB_NODELIST-}" ]; then
        mapfile -t names < <(timeout 20 scontrol show hostnames "$SLURM_JOB_NODELIST" 2>/dev/null)
    elif [ -n "${PE_HOSTFILE-}" ]; then
        mapfile -t names < <(cut -d ' ' -f 1 "$PE_HOSTFILE" 2>/dev/null)
    fi
    for name in "${names[@]}"; do
        text+=", \"${name//[^[:alnum:]._-]/_}\""
    done
    if [ -n "$text" ] && [ "${#text}" -lt 60000 ]; then # a line that is read has 64 KiB at most
        journal nodes ", \"nodes\": [${text#, }]"
    fi
}

# Leave a script that does FUNCTION for this run: what launchers start, here or on another node, knows
# nothing of this shell. FUNCTION
hand_on() {
    local known=(job uid directory launcher processes on_a_node gpus)
    known+=(setup runtime image present ready launch wall hands_gpus program)
    {
        declare -p "${known[@]}"
        declare -f now leave journal sweep outcome refuse share begin instance end_step "$1"
        printf '%s\n' "$1"
    } >"$directory/$1.sh"
}

# Make what all processes of a run have to find in their image.
make_ready() {
    if [ "${#ready[@]}" -gt 0 ]; then "${ready[@]}" >"$directory/.made"; fi
}

# Take it away again, and add what the first process printed to what the launcher said.
clear_away() {
    local place
    tac "$directory/.made" | while IFS= read -r place; do rmdir "$place"; done
    cat "$directory/rank-0/output.txt" >>"$directory/output.txt"
} 2>/dev/null

# Wait for a child, whatever signals come in between; returns its exit code. PID
outcome() {
    local code
    while true; do
        wait "$1"
        code=$? # of a child that ended together with a signal to us: 143, as if the signal had
        kill -0 "$1" 2>/dev/null || return "$code"
    done
}

# This process cannot run, and why. TEXT
refuse() {
    echo "$1"
    leave "$own/failure" "$1"
    exit 1
}

# COUNT of the GPUs that are seen here, from the FIRSTth on. FIRST COUNT
share() {
    local all IFS=,
    read -r -a all <<<"${CUDA_VISIBLE_DEVICES-}"
    printf '%s\n' "${all[*]:$1:$2}"
}

# Start the program behind the wall with these variables, and leave its exit code. VARIABLES...
begin() {
    local child code moment
    if [ -n "${CUDA_VISIBLE_DEVICES+set}" ]; then
        export CUDA_VISIBLE_DEVICES
        if [ -n "$hands_gpus" ]; then set -- "CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES" "$@"; fi
    fi
    now # not in the next line, which is a process of its own already
    "${wall[@]}" /usr/bin/env "TARE_BEGAN=$moment" "$@" "${program[@]}" 2>&1 &
    child=$!
    trap 'kill -TERM "$child"' TERM
    exec 2>/dev/null # what bash remarks on signals is none of the program's output
    outcome "$child"
    code=$?
    now
    leave "$own/ended" "$moment"
    leave "$own/exit_code" "$code"
    return "$code"
}

# One process of a run, wherever the launcher has started it.
process() {
    local rank size local_rank own name handed=()
    case $launcher in
    srun)
        rank=${SLURM_PROCID-} size=${SLURM_STEP_NUM_TASKS-} local_rank=${SLURM_LOCALID-}
        ;;
    *) # Open MPI's names, else those of the protocols by which launchers speak
        rank=${OMPI_COMM_WORLD_RANK-${PMIX_RANK-${PMI_RANK-}}}
        size=${OMPI_COMM_WORLD_SIZE-${PMI_SIZE-}}
        local_rank=${OMPI_COMM_WORLD_LOCAL_RANK-$((${rank:-0} % on_a_node))}
        ;;
    esac
    own="$directory/rank-${rank:-0}"
    mkdir -p "$own"
    exec >"$own/output.txt" 2>&1
    if [ -z "$rank" ] || [ "$size" != "$processes" ]; then
        refuse "launcher failed: $launcher has started number ${rank:-?} of ${size:-?} processes; \
asked for: $processes. Options of a partition may say so, or an MPI that Tare does not know"
    fi
    export TARE_RUN=$directory
    if [ "$launcher" = srun ] && [ "$rank" = 0 ]; then
        leave "$directory/.step" "$SLURM_JOB_ID.$SLURM_STEP_ID"
    fi
    eval "$setup" || refuse "set-up failed (exit code $?) on ${SLURMD_NODENAME:-$(hostname)}"
    if [ -n "$runtime" ]; then
        command -v "$runtime" >/dev/null ||
            refuse "runtime missing: ${SLURMD_NODENAME:-$(hostname)} has no $runtime"
    fi
    "${present[@]}" >/dev/null ||
        refuse "image missing: $image, on ${SLURMD_NODENAME:-$(hostname)}"
    if [ "${#ready[@]}" -gt 0 ]; then "${ready[@]}" >/dev/null; fi
    cd "$directory" || refuse "directory missing: $directory"
    for name in "${!OMPI_@}" "${!PMIX_@}" "${!PMI_@}" "${!PRTE_@}" "${!SLURM@}"; do
        handed+=("$name=${!name}")
    done
    if [ -n "${CUDA_VISIBLE_DEVICES+set}" ]; then CUDA_VISIBLE_DEVICES=$(share 0 "$gpus"); fi
    begin "${handed[@]}" "TARE_RANK=$rank" "TARE_SIZE=$size" \
        "TARE_LOCAL_RANK=$local_rank" "TARE_LOCAL_SIZE=$on_a_node"
    exit
}

# Ask all processes of the step to end; if there is none yet, srun itself.
end_step() {
    scancel --signal=TERM "$(cat "$directory/.step")" || kill -TERM "$child"
}

# All processes of a run by srun. It answers TERM by killing what it has started; so it hears of none,
# and its step is asked to end as any program is.
by_srun() {
    local child
    export TARE_RUN=$directory
    setsid "${launch[@]}" bash -l "$directory/process.sh" 2>&1 &
    child=$!
    exec 2>/dev/null
    trap end_step TERM
    outcome "$child"
    exit
}

# All instances of a packed run at once. The first that fails ends the others.
instances() {
    local number ended='' code=0 children=()
    trap 'ended=yes; kill -TERM "${children[@]}"' TERM
    if [ "$gpus" -gt 0 ] && [ -z "${CUDA_VISIBLE_DEVICES+set}" ]; then
        CUDA_VISIBLE_DEVICES=$(seq -s, 0 $((processes * gpus - 1)))
    fi
    for ((number = 0; number < processes; number++)); do
        instance "$number" &
        children+=("$!")
    done
    exec 2>/dev/null
    if [ -n "$ended" ]; then kill -TERM "${children[@]}"; fi # those that came after the signal
    for number in "${!children[@]}"; do
        outcome "${children[number]}" || code=1
    done
    exit "$code"
}

# One of them: a directory, a home and GPUs of its own. NUMBER
instance() {
    local code own="$directory/instance-$1"
    trap - TERM
    mkdir -p "$own"
    exec >"$own/output.txt" 2>&1
    if [ -n "${CUDA_VISIBLE_DEVICES+set}" ]; then
        CUDA_VISIBLE_DEVICES=$(share $(($1 * gpus)) "$gpus")
    fi
    begin "HOME=$own" "TARE_INSTANCE=$1" "TARE_INSTANCES=$processes"
    code=$?
    if [ "$code" != 0 ]; then kill -TERM "$$"; fi
    return "$code"
}

# What the run has left on the other nodes of the job.
sweep_elsewhere() {
    hand_on swept
    timeout 60 srun --overlap --nodes="$nodes" --ntasks="$nodes" --ntasks-per-node=1 --mpi=none \
        bash "$directory/swept.sh" >>"$job/journal.ndjson" 2>/dev/null
}

# The same on one node: only one of them may write into the journal, so it is printed.
swept() {
    node=${SLURMD_NODENAME:-$(hostname)}
    job=$(mktemp -d) || exit
    sweep
    cat "$job/journal.ndjson" 2>/dev/null
    rm -r "$job"
}

# --- The job ------------------------------------------------------------------------------------

claim
trap terminate TERM USR2
exec >"$job/job.out" 2>&1 </dev/null
journal "job started" ", \"job\": \"$job_id\""
name_nodes

if [ ! -d "$job/snapshot" ]; then mkdir "$job/snapshot"; fi
copy hostname /proc/sys/kernel/hostname
copy os-release /etc/os-release
copy cpuinfo /proc/cpuinfo
copy meminfo /proc/meminfo
copy loadavg /proc/loadavg
uname -a >"$job/snapshot/uname"
fact nvidia-smi nvidia-smi -q
fact scheduler scontrol show job -o "$SLURM_JOB_ID"
require_gpus 2

journal "page cache" ", \"policy\": \"as found\""
visible_gpus=()
if [ -n "${CUDA_VISIBLE_DEVICES+set}" ]; then
    visible_gpus=("CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES")
fi

choose_gpus
begin_samples 5

# Run 1 of 1: blas, udocker "NumPy 2.5, udocker P1"
setup='ulimit -s unlimited'
limit=180
runtime=/scratch/tools/udocker
image=numpy-p1
present=(/scratch/tools/udocker inspect -p numpy-p1)
version=(/scratch/tools/udocker version)
ready=(sh -c $'root=$("$0" inspect -p "$1") && cd "$root" && shift || exit\nset -f\nfor mount; do\n    place=${mount#*:}\n    if [ ! -d "${mount%%:*}" ]; then place=${place%/*}; fi\n    path=$PWD\n    IFS=/\n    for part in $place; do\n        if [ -z "$part" ]; then continue; fi\n        path=$path/$part\n        if mkdir "$path" 2>/dev/null; then printf \'%s\\n\' "$path"; fi\n    done\ndone' /scratch/tools/udocker numpy-p1 '/scratch/jo'"'"'s work/jobs/5a3f-1:/scratch/jo'"'"'s work/jobs/5a3f-1')
launch=(mpirun -np 4 --map-by ppr:2:node --bind-to none --mca btl '^openib')
hands_gpus=yes
wall=(/usr/bin/env UDOCKER_DEFAULT_EXECUTION_MODE=P1 /scratch/tools/udocker --quiet run --nobanner --entrypoint= '--workdir=/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de' '--volume=/scratch/jo'"'"'s work/jobs/5a3f-1:/scratch/jo'"'"'s work/jobs/5a3f-1' numpy-p1 /bin/sh -c 'trap : HUP INT QUIT TERM USR1 USR2; exec 9>&2 2>/dev/null; (exec "$@" 2>&9 9>&-); exit "$?"' wait)
variables=('TARE_RUN=/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de' 'HOME=/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de' LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 PYTHONNOUSERSITE=1)
program=(/opt/tare/bin/python '/scratch/jo'"'"'s work/jobs/5a3f-1/payload/main.py' '/scratch/jo'"'"'s work/jobs/5a3f-1/runs/0-0c0de/spec.json')
run 0c0de runs/0-0c0de

if [ -n "$terminated" ]; then finish 143; fi
if [ -e "$job/failure.json" ]; then finish 1; fi
finish 0
