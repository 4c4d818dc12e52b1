"""Benchmarks that others wrote, as known programs for the workload `command`.

Only data, and small files of Tare's own: settings that a program reads, and a script where two
programs have to be started. What each of them measures stands in docs/benchmarks.md.
"""

from __future__ import annotations

from collections.abc import Mapping

from experiments.presets.programs import NUMBER, Ready, make_command, make_metric

HPCC_SETTINGS = "\n".join(
    (
        "Settings of HPL and of the other parts of HPC Challenge",
        "Its first lines are free text",
        "HPL.out  (not written: device 8 is the file of results)",
        "8        device",
        "1        sizes",
        "2000     N: memory needed is 8 N^2 bytes",
        "1        block sizes",
        "128      NB",
        "0        order of processes: by rows",
        "1        grids; P x Q is the number of processes",
        "1        P",
        "1        Q",
        "16.0     largest residual that is still right",
        "1        panel factorizations",
        "2        right-looking",
        "1        ends of recursion",
        "4        columns",
        "1        panels in recursion",
        "2        panels",
        "1        recursive factorizations",
        "1        Crout",
        "1        broadcasts",
        "1        ring, modified",
        "1        look-aheads",
        "1        depth",
        "2        swapping: mixed",
        "64       threshold of swapping",
        "0        L1 transposed",
        "0        U transposed",
        "1        equilibration",
        "8        alignment",
        "",
    )
)
HPCC_SCRIPT = """\
# Start HPC Challenge, which is the first argument, on its settings, in the run's own folder.
cp "$TARE_FILES/hpccinf.txt" hpccinf.txt && exec "$@"
"""
LOOPBACK_SCRIPT = """\
# Send to a server in the same environment, on a port that hardly anybody else has.
port=$((20000 + $$ % 20000))
"$1" --server --one-off --bind 127.0.0.1 --port "$port" >server.txt 2>&1 &
server=$!
tries=0
# With --json it ends with 0 even where it could not connect.
until "$@" --client 127.0.0.1 --port "$port" && ! grep -q '"error"' iperf3.json; do
    tries=$((tries + 1))
    if [ "$tries" -ge 5 ] || ! kill -0 "$server"; then
        cat server.txt >&2
        kill "$server" 2>/dev/null
        exit 1
    fi
    rm -f iperf3.json
    sleep 1
done
wait "$server"
"""
PYTEST_SCRIPT = '''\
"""A function that pytest-benchmark measures: put your own in its place."""

import random

NUMBERS = random.Random(1).sample(range(10_000), 10_000)


def test_sort(benchmark):
    assert benchmark(sorted, NUMBERS) == list(range(10_000))
'''


def _sysbench(part: str, *options: str) -> list[str]:
    return ["sysbench", part, "--threads=1", "--time=10", *options, "run"]


_SYSBENCH_EVENTS = r"total number of events:\s+[1-9]"
_LATENCY = make_metric("latency_mean", "ms", rf"^\s+avg:\s+{NUMBER}$", better="lower")

SYSBENCH_CPU = Ready(
    piece=make_command(
        "sysbench cpu, 1 thread, 10 s",
        _sysbench("cpu"),
        [
            make_metric("events_per_second", "events/s", rf"events per second:\s+{NUMBER}"),
            _LATENCY,
            make_metric("latency_95", "ms", rf"^\s+95th percentile:\s+{NUMBER}$", better="lower"),
        ],
        seconds=120,
        success_pattern=_SYSBENCH_EVENTS,
        failure_pattern=r"^FATAL:",
    ),
    measures="CPU",
    summary="Counts primes up to 10,000, again and again: plain arithmetic on one core.",
    needs="sysbench 1.0 (Debian: sysbench)",
    programs=("sysbench",),
)
SYSBENCH_MEMORY = Ready(
    piece=make_command(
        "sysbench memory, blocks of 1 MiB, 10 s",
        _sysbench("memory", "--memory-block-size=1M", "--memory-total-size=100T"),
        [
            make_metric("write_rate", "MiB/s", rf"MiB transferred \({NUMBER} MiB/sec\)"),
            _LATENCY,
        ],
        seconds=120,
        success_pattern=_SYSBENCH_EVENTS,
        failure_pattern=r"^FATAL:",
    ),
    measures="memory",
    summary="Writes blocks of memory with one thread; blocks that fit into a cache measure that.",
    needs="sysbench 1.0 (Debian: sysbench)",
    programs=("sysbench",),
)
HPCC = Ready(
    piece=make_command(
        "HPC Challenge, N 2000",
        ["sh", "hpcc.sh", "hpcc"],
        [
            make_metric("hpl_rate", "Tflop/s", rf"^HPL_Tflops={NUMBER}$"),
            make_metric("dgemm_rate", "Gflop/s", rf"^StarDGEMM_Gflops={NUMBER}$"),
            make_metric("fft_rate", "Gflop/s", rf"^StarFFT_Gflops={NUMBER}$"),
            make_metric("stream_triad", "GB/s", rf"^StarSTREAM_Triad={NUMBER}$"),
            make_metric("stream_copy", "GB/s", rf"^StarSTREAM_Copy={NUMBER}$"),
            make_metric("random_access", "GUP/s", rf"^StarRandomAccess_GUPs={NUMBER}$"),
        ],
        seconds=900,
        files={"hpccinf.txt": HPCC_SETTINGS, "hpcc.sh": HPCC_SCRIPT},
        file="hpccoutf.txt",
        success_pattern=r"^Success=1$",
        failure_pattern=r"\bFAILED\b|^Success=0|[1-9]\d* tests completed and failed",
    ),
    measures="CPU",
    summary="HPL (a dense system of equations), DGEMM, FFT, STREAM and random access in one run.",
    needs="hpcc with its BLAS and MPI (Debian: hpcc)",
    files={"hpccinf.txt": HPCC_SETTINGS, "hpcc.sh": HPCC_SCRIPT},
    programs=("hpcc",),
)
PYPERF = Ready(
    piece=make_command(
        "pyperf, sorting 10,000 numbers",
        [
            *("{python}", "-m", "pyperf", "timeit", "--processes=1", "--values=20"),
            *("--warmups=1", "--quiet", "--output=pyperf.json"),
            "--setup=import random; data = random.Random(1).sample(range(10_000), 10_000)",
            "sorted(data)",
        ],
        [
            make_metric(
                "mean_time", "s", "benchmarks.0.runs.1.values", better="lower", take="series"
            )
        ],
        seconds=120,
        read="json",
        file="pyperf.json",
    ),
    measures="CPU",
    summary="Times a statement of Python; one process a run, as Tare’s repeats are its processes.",
    needs="The Python package pyperf (PyPI)",
)
PYTEST_BENCHMARK = Ready(
    piece=make_command(
        "pytest-benchmark, sorting 10,000 numbers",
        [
            *("{python}", "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("--benchmark-json=pytest-benchmark.json", "test_benchmarks.py"),
        ],
        [
            make_metric("mean_time", "s", "benchmarks.0.stats.mean", better="lower"),
            make_metric("median_time", "s", "benchmarks.0.stats.median", better="lower"),
            make_metric("least_time", "s", "benchmarks.0.stats.min", better="lower"),
        ],
        seconds=120,
        read="json",
        file="pytest-benchmark.json",
        files={"test_benchmarks.py": PYTEST_SCRIPT},
        success_pattern=r"\b[1-9]\d* passed\b",
        failure_pattern=r"\b[1-9]\d* (?:failed|errors?)\b",
    ),
    measures="CPU",
    summary="Times functions of Python by tests that also check their results.",
    needs="The Python packages pytest and pytest-benchmark (PyPI)",
    files={"test_benchmarks.py": PYTEST_SCRIPT},
)
STREAM = Ready(
    piece=make_command(
        "STREAM",
        ["stream_c.exe"],
        [
            make_metric(f"{name.lower()}_rate", "MB/s", rf"^{name}:\s+{NUMBER}\s")
            for name in ("Triad", "Copy", "Scale", "Add")
        ],
        seconds=300,
        success_pattern=r"^Solution Validates",
        failure_pattern=r"^Failed Validation",
    ),
    measures="memory",
    summary="Sustained memory bandwidth of four simple loops over arrays larger than the caches.",
    needs="stream_c.exe, compiled with arrays of four times the last cache; or take HPC Challenge",
    programs=("stream_c.exe",),
    is_from_documentation=True,
)


def _fio(name: str, *options: str) -> list[str]:
    return [
        *("fio", f"--name={name}", "--size=256m", "--ioengine=psync", "--time_based"),
        *("--runtime=20", "--unlink=1", "--randseed=1"),
        *options,
        *("--output-format=json", "--output=fio.json"),
    ]


_FIO_FAILED = r'"error"\s*:\s*[1-9]|^fio: .*\berror\b'
FIO_RANDOM = Ready(
    piece=make_command(
        "fio, random blocks of 4 KiB, 70 % read",
        _fio("random", "--rw=randrw", "--rwmixread=70", "--bs=4k"),
        [
            make_metric("read_operations", "1/s", "jobs.0.read.iops"),
            make_metric("write_operations", "1/s", "jobs.0.write.iops"),
            make_metric("read_latency", "ns", "jobs.0.read.clat_ns.mean", better="lower"),
            make_metric("write_latency", "ns", "jobs.0.write.clat_ns.mean", better="lower"),
        ],
        seconds=180,
        read="json",
        file="fio.json",
        failure_pattern=_FIO_FAILED,
    ),
    measures="disk",
    summary="Reads and writes small blocks of a file in random order, in the run’s folder.",
    needs="fio 3 (Debian: fio)",
    programs=("fio",),
)
FIO_SEQUENTIAL = Ready(
    piece=make_command(
        "fio, writing in order, blocks of 1 MiB",
        _fio("in-order", "--rw=write", "--bs=1m", "--end_fsync=1"),
        [
            make_metric("write_rate", "B/s", "jobs.0.write.bw_bytes"),
            make_metric("write_latency", "ns", "jobs.0.write.clat_ns.mean", better="lower"),
        ],
        seconds=180,
        read="json",
        file="fio.json",
        failure_pattern=_FIO_FAILED,
    ),
    measures="disk",
    summary="Writes a file from its beginning to its end, in the run’s folder.",
    needs="fio 3 (Debian: fio)",
    programs=("fio",),
)
IPERF3 = Ready(
    piece=make_command(
        "iperf3 over the loopback, 10 s",
        ["sh", "loopback.sh", "iperf3", "--time", "10", "--json", "--logfile", "iperf3.json"],
        [make_metric("received_rate", "bit/s", "end.sum_received.bits_per_second")],
        seconds=120,
        read="json",
        file="iperf3.json",
        files={"loopback.sh": LOOPBACK_SCRIPT},
        failure_pattern=r'"error"\s*:',
    ),
    measures="network",
    summary="One stream of TCP from a process to another one of the same environment.",
    needs="iperf3 (Debian: iperf3)",
    files={"loopback.sh": LOOPBACK_SCRIPT},
    programs=("iperf3",),
)


def _osu(name: str, label: str, metric: str, unit: str, better: str) -> Ready:
    return Ready(
        piece=make_command(
            f"OSU micro-benchmarks, {name}",
            [name],
            [
                make_metric(f"{metric}_{size}", unit, rf"^{size}\s+{NUMBER}\b", better=better)
                for size in ((8, 1048576) if better == "lower" else (1048576, 8))
            ],
            seconds=300,
            processes="node",
            success_pattern=rf"^# OSU MPI {label} Test",
            failure_pattern=r"^Abort\(|MPI_ABORT was invoked",
        ),
        measures="network",
        summary=f"{label} between two processes of MPI, messages of 8 B and 1 MiB, at 2x0 mpirun.",
        needs=f"{name} of the OSU micro-benchmarks, built with the MPI of the launcher",
        programs=(name,),
        is_from_documentation=True,
    )


OSU_LATENCY = _osu("osu_latency", "Latency", "latency", "us", "lower")
OSU_BANDWIDTH = _osu("osu_bw", "Bandwidth", "bandwidth", "MB/s", "higher")
NCCL = Ready(
    piece=make_command(
        "nccl-tests, all-reduce from 8 B to 128 MiB",
        [
            *("all_reduce_perf", "--minbytes", "8", "--maxbytes", "128M"),
            *("--stepfactor", "2", "--ngpus", "{gpus}"),
        ],
        [make_metric("bus_bandwidth", "GB/s", rf"^# Avg bus bandwidth\s+:\s+{NUMBER}")],
        seconds=300,
        success_pattern=r"^#\s+Out of bounds values\s+:\s+0 OK",
        failure_pattern=r"Test (?:NCCL|CUDA) failure|Out of bounds values\s+:\s+\d+ FAILED",
    ),
    measures="GPU",
    summary="Bandwidth of an all-reduce by NCCL over the GPUs of one node, results checked.",
    needs="all_reduce_perf of nccl-tests, with CUDA and NCCL",
    programs=("all_reduce_perf",),
    is_from_documentation=True,
)
MLPERF = Ready(
    piece=make_command(
        "A training that logs as MLPerf",
        ["sh", "/benchmarks/run_and_time.sh"],
        [
            make_metric(
                "eval_accuracy",
                "1",
                rf':::MLLOG .*"key": "eval_accuracy", "value": {NUMBER}',
            ),
        ],
        seconds=3600,
        primary="wall_time",
        success_pattern=r':::MLLOG .*"key": "run_stop".*"status": "success"',
        failure_pattern=r':::MLLOG .*"key": "run_stop".*"status": "aborted"',
    ),
    measures="machine learning",
    summary="A training that prints the lines :::MLLOG of MLPerf Training; its whole time counts.",
    needs="Your training, started by run_and_time.sh; mlperf-logging (PyPI) writes such lines",
    has_folder=True,
)
BENCHMARKS: Mapping[str, Ready] = {
    "sysbench-cpu": SYSBENCH_CPU,
    "hpcc": HPCC,
    "pyperf": PYPERF,
    "pytest-benchmark": PYTEST_BENCHMARK,
    "sysbench-memory": SYSBENCH_MEMORY,
    "stream": STREAM,
    "fio-random": FIO_RANDOM,
    "fio-sequential": FIO_SEQUENTIAL,
    "iperf3": IPERF3,
    "osu-latency": OSU_LATENCY,
    "osu-bandwidth": OSU_BANDWIDTH,
    "nccl-tests": NCCL,
    "mlperf-training": MLPERF,
}
