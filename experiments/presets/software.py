"""Presets about the software of images: NumPy on its BLAS (project 004), and single overheads."""

from __future__ import annotations

from experiments.presets.base import FULL, LAPTOP, Piece, Preset, Size, make_timed
from experiments.presets.papers import COREOS, UDOCKER_GPU


def _blas(size: int, precision: str, *, steps: int, minutes: float) -> Piece:
    return Piece(
        name=f"NumPy, {size} x {size}, {precision}",
        kind="blas",
        parameters={
            "matrix_size": size,
            "decomposition_size": size // 2,
            "precision": precision,
            "steps": steps,
            "burn_in": max(1, steps // 10),
        },
        time_limit_seconds=round(60 * minutes),
    )


BLAS = Preset(
    key="numpy-on-tuned-blas",
    title="NumPy on the BLAS that an image brings",
    source="“numpy with MKL and cuBLAS”",
    paper=COREOS,
    question="What is the BLAS of each environment worth, by size and precision?",
    then="NumPy and SciPy were built against MKL inside the image, with nvBLAS before it, because "
    "speed there was critical. No figures were published.",
    now="Matrix products and decompositions by size and precision, on one core and without a GPU; "
    "which BLAS answered stands in each run's facts. Two images with different BLAS are two "
    "environments.",
    needs=("numpy",),
    metric="matmul_time",
    ends_in="The forest plot: a row for each size and precision; every number in the table below",
    sizes={
        FULL: Size(
            workloads=tuple(
                _blas(size, precision, steps=steps, minutes=20)
                for size, steps in ((1024, 200), (4096, 40), (8192, 12))
                for precision in ("float32", "float64")
            ),
            scales=("1x0",),
        ),
        LAPTOP: Size(
            workloads=tuple(
                _blas(size, precision, steps=20, minutes=2)
                for size in (128, 512)
                for precision in ("float32", "float64")
            ),
            scales=("1x0",),
            note="Matrices of 128 and 512 rows, 20 steps.",
        ),
    },
)


def _startup(module: str, *, steps: int) -> Piece:
    return Piece(
        name=f"Start of Python, import of {module}, {steps} times",
        kind="startup",
        parameters={"module": module, "steps": steps},
        time_limit_seconds=300,
    )


def _files(*, small: int, large_mb: int, steps: int, minutes: float) -> Piece:
    return Piece(
        name=f"{small} small files and one of {large_mb} MB, {steps} times",
        kind="files",
        parameters={"small_files": small, "large_file_mb": large_mb, "steps": steps},
        time_limit_seconds=round(60 * minutes),
    )


def _start_with(cache: str, module: str, *, steps: int) -> Piece:
    return Piece(
        name=f"Start of Python, import of {module}, {cache} page cache",
        kind="startup",
        parameters={"module": module, "steps": steps, "page_cache": cache},
        time_limit_seconds=300,
    )


def _train_with(cache: str) -> Piece:
    """Return the network for MNIST of 001, short: what is read counts, not what is computed."""
    return make_timed(
        f"MNIST network, batch 50, 2000 steps, {cache} page cache",
        15,
        network="mnist",
        batch_size=50,
        steps=2000,
        burn_in=10,
        deterministic=False,
        page_cache=cache,
    )


COLD_AND_WARM = Preset(
    key="cold-and-warm-cache",
    title="Cold and warm page cache",
    source="An open question",
    paper=UDOCKER_GPU,
    question="Do containers look faster, or slower, because of what of their files is in memory?",
    then="Containers looked slightly faster than bare metal within the uncertainty; that their "
    "files are cached on the node was a guess, left open.",
    now="Each program twice: once with its files in memory before each run, once with none of them "
    "there. A run of which that is not true fails, so each is what it is called. Containers whose "
    "images no user of the node can read, such as Podman's, are left out.",
    needs=("numpy", "tensorflow"),
    metric="run_time",
    ends_in="“Between workloads”: cold against warm in each environment, and how the container's "
    "cost changes; the verdict matrix has a row for each",
    sizes={
        FULL: Size(
            workloads=(
                *(_start_with(cache, "tensorflow", steps=2) for cache in ("warm", "cold")),
                *(_train_with(cache) for cache in ("warm", "cold")),
            ),
            scales=("1x1",),
            data="MNIST, as its four idx files",
            with_data={"data": "mnist"},
        ),
        LAPTOP: Size(
            workloads=tuple(_start_with(cache, "numpy", steps=2) for cache in ("warm", "cold")),
            scales=("1x0",),
            note="The import of NumPy alone.",
        ),
    },
)

ANATOMY = Preset(
    key="anatomy-of-the-overhead",
    title="The anatomy of the overhead: starting, importing, files",
    source="An open question",
    paper=UDOCKER_GPU,
    question="Where does a container cost something: at its start, at the import, or at files?",
    then="Containers looked slightly faster than bare metal within the uncertainty; that their "
    "files are cached on the node was a guess, left open.",
    now="What a training hides is measured alone: the start of the container, the interpreter and "
    "the import of the framework; small files, a large one, and the software of the image.",
    needs=("numpy", "tensorflow"),
    metric="",
    ends_in="“Phases”: those from the container’s start on, by environment, and "
    "what each costs over the baseline",
    sizes={
        FULL: Size(
            workloads=(
                _startup("numpy", steps=31),
                _startup("tensorflow", steps=31),
                _files(small=5000, large_mb=1024, steps=20, minutes=60),
            ),
            scales=("1x0",),
        ),
        LAPTOP: Size(
            workloads=(
                _startup("numpy", steps=5),
                _startup("tensorflow", steps=3),
                _files(small=200, large_mb=16, steps=5, minutes=3),
            ),
            scales=("1x0",),
            note="Three to five starts, 200 small files and one of 16 MB.",
        ),
    },
)
