"""The check that the GPUs which the job requested can be used in this environment.

A container runtime that passes no GPU on gives no error, and the program would measure the CPU.
Run as a program, this file prints how many GPUs CUDA can use, and its message if that failed.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Tuple

DRIVER = "/proc/driver/nvidia/gpus"  # the kernel's own list: a container does not hide it
LIBRARY = "libcuda.so.1"


class GPUMissing(Exception):
    """An error for fewer GPUs than requested; its message begins with the failure's name."""


def require_gpus(requested: int) -> None:
    """Raise GPUMissing unless `requested` GPUs can be used in this environment.

    Where the kernel has no NVIDIA driver nothing is known, so nothing is required.
    """
    if not requested or not os.path.isdir(DRIVER) or not os.listdir(DRIVER):
        return
    import subprocess  # which every run would pay for

    # In another process: CUDA must not be initialised in the one that is measured.
    argv = [sys.executable, "-I", os.path.abspath(__file__)]
    try:
        count, reason = json.loads(subprocess.run(argv, stdout=subprocess.PIPE, timeout=60).stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        count, reason = 0, str(error)
    # CUDA shows one instance of a divided GPU, however many a process was given.
    divided = "MIG-" in os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if count < (1 if divided else requested):
        detail = f" ({reason})" if reason else ""
        raise GPUMissing(
            f"GPU missing: {requested} asked for, {count} usable in here{detail}; the node has "
            f"{len(os.listdir(DRIVER))}. Does the runtime pass GPUs on?"
        )


def count_usable() -> Tuple[int, str]:
    """Return how many GPUs CUDA can use in this process, and its message if that failed."""
    import ctypes

    count = ctypes.c_int()
    try:
        driver = ctypes.CDLL(LIBRARY)
        status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    except (OSError, AttributeError) as error:
        return 0, str(error)
    return count.value, f"the CUDA driver answers {status}" if status else ""


if __name__ == "__main__":
    print(json.dumps(count_usable()))
