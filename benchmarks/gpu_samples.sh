#!/bin/bash
# What sampling GPUs by nvidia-smi costs on a node: CPU time of the tool, the delay of its first line,
# what a list of processes costs, and the rate of a GPU-bound program with and without it, in turns.
# Needs bash, nvidia-smi and python3; with JAX or PyTorch also the rates. Takes about four minutes and
# changes nothing on the machine. Usage: bash gpu_samples.sh [FOLDER]
set -u
folder=${1:-$(mktemp -d)}
seconds=60
export TZ=UTC0
nvidia-smi -q >"$folder/nvidia-smi-q.txt"
reasons=clocks_throttle_reasons
if grep -q 'Clocks Event Reasons' "$folder/nvidia-smi-q.txt"; then reasons=clocks_event_reasons; fi
fields=timestamp,index,utilization.gpu,memory.used,power.draw,clocks.sm,temperature.gpu,$reasons.active
gpus=$(grep -c '^GPU [0-9A-Fa-f]' "$folder/nvidia-smi-q.txt")
ticks=$(getconf CLK_TCK)
echo "GPUs $gpus, CPUs $(nproc), $(grep -m 1 'Driver Version' "$folder/nvidia-smi-q.txt"), $reasons"

# The CPU seconds of a process so far, with what the kernel did for it. PID
cpu_seconds() {
    local text
    read -r text <"/proc/$1/stat"
    text=${text##*) }
    # shellcheck disable=SC2086 # its fields
    set -- $text
    python3 -c "print((${12} + ${13}) / $ticks)"
}

# Sample as a job does, and print what the tool takes. INTERVAL
sample() {
    local begun first pid used
    begun=$EPOCHREALTIME
    nvidia-smi --query-gpu="$fields" --format=csv,noheader,nounits --loop="$1" \
        >"$folder/gpus-$1.csv" 2>&1 &
    pid=$!
    while [ ! -s "$folder/gpus-$1.csv" ]; do sleep 0.05; done
    first=$EPOCHREALTIME
    used=$(cpu_seconds "$pid")
    sleep "$seconds"
    echo "every $1 s: first line after $(python3 -c "print(round($first - $begun, 2))") s and" \
        "$used CPU s; then $(python3 -c "print(round($(cpu_seconds "$pid") - $used, 3))") CPU s in" \
        "$seconds s, $(wc -l <"$folder/gpus-$1.csv") lines"
    kill -KILL "$pid"
    wait "$pid" 2>/dev/null
}

sample 5
sample 1
head -n "$gpus" "$folder/gpus-5.csv"

echo "list of processes, three times:"
for _ in 1 2 3; do
    ( time nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv,noheader ) 2>&1 |
        tr '\n' ' '
    echo
done

cat >"$folder/rate.py" <<'END'
"""Rates of a GPU-bound loop, in turns without and with samples every 5 s and every 1 s."""
import statistics, subprocess, sys, time
fields = sys.argv[1]
try:
    import jax, jax.numpy as jnp
    a = jnp.ones((8192, 8192), jnp.bfloat16)
    multiply = jax.jit(lambda x: x @ x * 1e-4)
    def work():
        b = a
        for _ in range(200):
            b = multiply(b)
        b.block_until_ready()
except ImportError:
    try:
        import torch
    except ImportError:
        sys.exit("neither JAX nor PyTorch: no rates")
    a = torch.ones((8192, 8192), dtype=torch.bfloat16, device="cuda")
    def work():
        b = a
        for _ in range(200):
            b = b @ a * 1e-4
        torch.cuda.synchronize()
work()
def rate(interval, seconds=10.0):
    command = ["nvidia-smi", "--query-gpu=" + fields, "--format=csv,noheader,nounits", f"--loop={interval}"]
    tool = subprocess.Popen(command, stdout=subprocess.DEVNULL) if interval else None
    time.sleep(1.5)
    begun, count = time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        work()
        count += 1
    taken = time.perf_counter() - begun
    if tool:
        tool.kill()
        tool.wait()
    return count / taken
ratios = {5: [], 1: []}
for turn in range(4):
    for interval in ratios:
        order = (0, interval) if turn % 2 else (interval, 0)
        rates = {which: rate(which) for which in order}
        ratios[interval].append(rates[interval] / rates[0])
for interval, values in ratios.items():
    print(f"rate with samples every {interval} s over without: median {statistics.median(values):.5f},"
          f" {min(values):.5f} to {max(values):.5f}, {len(values)} turns")
END
timeout 260 python3 "$folder/rate.py" "$fields"
