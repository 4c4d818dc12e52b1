"""How much `startup` and `files` differ where an image's shell does them, and not Python inside.

`python -m benchmarks.outside_measures [REPEATS]` runs both on this machine, recorded inside, and
outside by each shell that there is, in random order. It prints the least and the median in ms, the
least first, since others may use this machine; and what an empty step costs: an order to the shell,
and its mark.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.outside_recording import SHELLS
from runners.payload import read_payload_files
from runners.workloads import WORKLOADS

CHOSEN: dict[str, dict[str, Any]] = {
    "startup": {"module": "json", "forks": 100, "steps": 6, "burn_in": 1},
    "files": {"steps": 6, "burn_in": 1, "random_reads": 0, "software_folder": "/usr/bin"},
    "nothing": {"program": ["sh", "-c", ":"], "forks": 0, "steps": 50, "burn_in": 1},
}


def measure(root: Path, kind: str, shell: str) -> dict[str, float]:
    """Return the times of a run in ms, by metric; recorded inside where `shell` is empty."""
    run = Path(tempfile.mkdtemp(dir=root))
    workload = "startup" if kind == "nothing" else kind
    recorded = "outside" if shell else "inside"
    parameters = WORKLOADS[workload].clean({**CHOSEN[kind], "recorded": recorded})
    spec = {"schema": 1, "workload": workload, "python": "none", "parameters": parameters}
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
    values = {name: entry["value"] * 1e3 for name, entry in metrics.items() if entry["unit"] == "s"}
    if kind == "nothing":
        return {"of a step, beside its parts": values["step_time"] - values["program_start"]}
    return {name: value for name, value in values.items() if not name.startswith("first_")}


def main(repeats: int = 10) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, content in read_payload_files().items():
            (root / "payload" / name).parent.mkdir(parents=True, exist_ok=True)
            (root / "payload" / name).write_bytes(content)
        for kind in CHOSEN:
            ways = [*([] if kind == "nothing" else [""]), *SHELLS.values()]
            values: dict[str, dict[str, list[float]]] = {way: {} for way in ways}
            for _ in range(repeats):
                for way in random.sample(ways, len(ways)):
                    for name, value in measure(root, kind, way).items():
                        values[way].setdefault(name, []).append(value)
            names = dict.fromkeys(name for way in ways for name in values[way])
            for name in names:
                medians = (
                    f"{Path(way).name or 'inside'} {min(values[way][name]):.3g} "
                    f"({statistics.median(values[way][name]):.3g})"
                    for way in ways
                    if name in values[way]
                )
                print(f"{kind}, {name} in ms: {', '.join(medians)}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
