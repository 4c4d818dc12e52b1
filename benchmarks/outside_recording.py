"""How much `wall_time` differs where the node's Python records a program, and not one inside.

`python -m benchmarks.outside_recording [REPEATS]` runs programs on this machine, recorded inside,
and outside by each shell that there is, in random order, and prints medians and quartiles in ms.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from runners.payload import read_payload_files

SHELLS = {
    name: path for name in ("dash", "bash", "busybox") if os.path.exists(path := f"/bin/{name}")
}
PROGRAMS = (["true"], ["sleep", "0.2"])


def measure(root: Path, argv: list[str], shell: str) -> float:
    """Return the wall_time of one run in ms; recorded inside where `shell` is empty."""
    run = Path(tempfile.mkdtemp(dir=root))
    parameters = {"argv": argv, "files": {}, "burn_in": 0}
    spec = {"schema": 1, "workload": "command", "python": "none", "parameters": parameters}
    (run / "spec.json").write_text(json.dumps(spec))
    command = [sys.executable, f"{root}/payload/main.py", f"{run}/spec.json"]
    if shell:
        link = run / "sh"  # BusyBox goes by the name that it is called by
        link.symlink_to(shell)
        command[1] = f"{root}/payload/outside.py"
        command += ["/usr/bin/env", f"TARE_RUN={run}", str(link), f"{root}/payload/inside.sh"]
    environ = {"PATH": "/usr/bin:/bin"}
    subprocess.run(command, cwd=run, env=environ, check=True, capture_output=True)
    metrics = json.loads((run / "result.json").read_text())["metrics"]
    return float(metrics["wall_time"]["value"]) * 1e3


def main(repeats: int = 40) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, content in read_payload_files().items():
            (root / "payload" / name).parent.mkdir(parents=True, exist_ok=True)
            (root / "payload" / name).write_bytes(content)
        for argv in PROGRAMS:
            values: dict[str, list[float]] = {"inside": [], **{name: [] for name in SHELLS}}
            for _ in range(repeats):
                for name in random.sample(list(values), len(values)):
                    values[name].append(measure(root, argv, SHELLS.get(name, "")))
            for name, row in values.items():
                low, median, high = statistics.quantiles(row, n=4)
                print(f"{' '.join(argv)}, {name}: {median:.2f} ms ({low:.2f} to {high:.2f})")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
