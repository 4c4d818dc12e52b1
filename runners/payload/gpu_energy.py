"""Print how many millijoules GPUs have used since their driver was loaded, as JSON, by number.

The job script runs this file on the node itself, outside of every container, before and after each
run: `python3 gpu_energy.py [NUMBERS]`, with commas between numbers; without them all GPUs. The
driver counts in steps of 0.1 s. Exits with 1 and prints nothing if any GPU does not tell.
"""

from __future__ import annotations

import ctypes
import json
import sys
from typing import Dict, Iterable

LIBRARY = "libnvidia-ml.so.1"


def read_counters(numbers: Iterable[int]) -> Dict[str, int]:
    """Return the counters by the GPU's number; of all GPUs if none is named.

    Raises OSError, with the driver's status, if any does not tell.
    """
    library = ctypes.CDLL(LIBRARY)
    require_success(library.nvmlInit_v2())
    numbers = list(numbers)
    if not numbers:
        count = ctypes.c_uint()
        require_success(library.nvmlDeviceGetCount_v2(ctypes.byref(count)))
        numbers = list(range(count.value))
    counters = {}
    for number in numbers:
        device, energy = ctypes.c_void_p(), ctypes.c_ulonglong()
        require_success(library.nvmlDeviceGetHandleByIndex_v2(number, ctypes.byref(device)))
        require_success(library.nvmlDeviceGetTotalEnergyConsumption(device, ctypes.byref(energy)))
        counters[str(number)] = energy.value
    return counters


def require_success(status: int) -> None:
    if status:
        raise OSError("NVML answers %d" % status)


if __name__ == "__main__":
    try:
        gpus = [int(number) for number in ",".join(sys.argv[1:]).split(",") if number]
        print(json.dumps(read_counters(gpus)))
    except (OSError, AttributeError, ValueError) as error:
        sys.exit(str(error))
