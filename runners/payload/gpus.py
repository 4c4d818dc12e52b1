"""Whether the GPUs that the job asked for can be used in here.

A container runtime that passes no GPU on says nothing and ends well; the program then measures
the CPU. As a program this prints how many GPUs CUDA can use here, and what it says if none.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from typing import Tuple

DRIVER = "/proc/driver/nvidia/gpus"  # the kernel's own list: a container does not hide it
LIBRARY = "libcuda.so.1"


class GPUMissing(Exception):
    """Fewer GPUs than the job asked for; the message begins with the failure's name."""


def demand(asked: int) -> None:
    """Raise GPUMissing unless `asked` GPUs can be used here.

    Nothing is known, and so nothing demanded, where the kernel has no NVIDIA driver.
    """
    if not asked or not os.path.isdir(DRIVER) or not os.listdir(DRIVER):
        return
    # In a process of its own: the one that is measured stays as it was.
    argv = [sys.executable, "-I", os.path.abspath(__file__)]
    try:
        count, reason = json.loads(subprocess.run(argv, stdout=subprocess.PIPE, timeout=60).stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        count, reason = 0, str(error)
    # CUDA shows one instance of a divided GPU, however many a process was given.
    divided = "MIG-" in os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if count < (1 if divided else asked):
        told = f" ({reason})" if reason else ""
        raise GPUMissing(
            f"GPU missing: {asked} asked for, {count} usable in here{told}; the node has "
            f"{len(os.listdir(DRIVER))}. Does the runtime pass GPUs on?"
        )


def usable() -> Tuple[int, str]:
    """How many GPUs CUDA can use in this process, and its words if that failed."""
    count = ctypes.c_int()
    try:
        driver = ctypes.CDLL(LIBRARY)
        status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    except (OSError, AttributeError) as error:
        return 0, str(error)
    return count.value, f"the CUDA driver answers {status}" if status else ""


if __name__ == "__main__":
    print(json.dumps(usable()))
