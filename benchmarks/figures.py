"""The printed forest plot: how long a figure takes cold and kept, and its files' sizes."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

BASE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BASE))

GROUPS = {"1": (1, 1), "18": (6, 3), "60": (20, 3), "216": (72, 3)}
TIMES = 3


def main() -> None:
    os.environ.setdefault("SECRET_KEY", "benchmark")
    os.environ.setdefault("DATABASE_URL", "postgresql:///none")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FIGURE_FOLDER"] = folder
        measure()


def measure() -> None:
    """Print the first figure of all, which makes the fonts, and each kind of file after it."""
    import django

    django.setup()
    from dashboard.drawings.drawing_process import draw
    from dashboard.drawings.forest_json import write_forest
    from tests.dashboard.drawings.examples import NAMES, describe, make_pairs

    def draw_timed(seed: int, compared, **options) -> tuple[float, int]:
        forest = describe(compared, metric=f"Time per step {seed}")
        began = time.perf_counter()
        size = len(draw(forest, width=180, theme="light", **options))
        return time.perf_counter() - began, size

    first, _ = draw_timed(0, make_pairs(1), ending="svg", page=1)
    print(f"the first figure of all, with its fonts: {first:.1f} s")
    print(f"{'comparisons':>11} {'file':>4} {'cold s':>7} {'kept ms':>8} {'kB':>6}   describe ms")
    for name, (groups, environments) in GROUPS.items():
        compared = make_pairs(groups, environments=NAMES[1 : environments + 1])
        began = time.perf_counter()
        write_forest(describe(compared))
        described = 1000 * (time.perf_counter() - began)
        for ending, page in (("svg", 1), ("png", 1), ("pdf", 0)):
            cold = [draw_timed(i, compared, ending=ending, page=page) for i in range(TIMES)]
            kept = [draw_timed(i, compared, ending=ending, page=page) for i in range(TIMES)]
            print(
                f"{name:>11} {ending:>4} {statistics.median(t for t, _ in cold):7.2f} "
                f"{1000 * statistics.median(t for t, _ in kept):8.1f} {cold[0][1] / 1000:6.0f}"
                f"   {described:.1f}"
            )


if __name__ == "__main__":
    main()
