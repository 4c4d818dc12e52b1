"""The progress of a build, in DIR/build.json, which pages show."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

from lab import host
from lab.instance import Instance

STEPS = 7  # of one image


class Progress:
    """The progress of one build, written to DIR/build.json at each step."""

    def __init__(self, lab: Instance, names: list[str]) -> None:
        self.path = lab.directory / "build.json"
        self.lock = threading.Lock()
        self.log = lab.directory / "log" / "build.log"
        self.log.write_text("")
        self.state: dict[str, Any] = {
            "images": names,
            "step": 0,
            "steps": STEPS * len(names),
            "label": "",
            "log": str(self.log),
            "started": time.time(),
            "finished": None,
            "error": "",
            "done": [],
        }
        self.write()

    def write(self) -> None:
        host.write_atomically(self.path, json.dumps(self.state, indent=2) + "\n")

    def step(self, label: str, work: Callable[[], None]) -> None:
        """Do one step and record how long it took."""
        with self.lock:
            self.state["label"] = label
            self.write()
        began = time.time()
        work()
        took = time.time() - began
        host.say(f"{label}: {took:.1f} s")
        with self.lock:
            self.state["step"] += 1
            self.state["done"].append({"label": label, "started": began, "seconds": round(took, 2)})
            self.write()

    def finish(self, error: str = "") -> None:
        self.state.update(finished=time.time(), error=error, step=len(self.state["done"]))
        if not error:
            self.state.update(step=self.state["steps"], label="ready")
        self.write()
