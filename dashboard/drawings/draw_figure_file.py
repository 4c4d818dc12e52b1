"""A program that reads the description of a figure and writes its file.

`python -m dashboard.drawings.draw_figure_file` has a process of its own, because matplotlib takes
a hundred megabytes, and so that nothing that goes wrong in it ends a web server.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Any

MEMORY = 2 << 30
"""Bytes of address space that the process may have; it needs a third of it."""


def main() -> None:
    """Draw what standard input asks for, as `drawing_process.draw` writes it."""
    order = json.loads(sys.stdin.buffer.read())
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    # At the first limit it ends by a signal of its own, which tells it from one that was killed.
    resource.setrlimit(resource.RLIMIT_CPU, (order["seconds"], order["seconds"] + 1))
    # Both take long to import: a process that is refused its limits ends before.
    from dashboard.drawings.axes_json import read_axes_figure
    from dashboard.drawings.axes_layout import lay_out_axes_figure
    from dashboard.drawings.files import use_typeface, write_file
    from dashboard.drawings.forest_figures import lay_out_forest
    from dashboard.drawings.forest_json import read_forest
    from dashboard.drawings.themes import THEMES
    from dashboard.drawings.typeface import Typeface

    type_ = Typeface(Path(order["folder"]))
    use_typeface(type_)
    paper: Any = {"width": order["width"], "theme": THEMES[order["theme"]], "type_": type_}
    if order["kind"] == "forest":
        pages = lay_out_forest(read_forest(order["figure"]), **paper)
    else:
        pages = lay_out_axes_figure(read_axes_figure(order["figure"]), **paper)
    if order["page"]:
        pages = pages[order["page"] - 1 : order["page"]]
    sys.stdout.buffer.write(write_file(pages, order["ending"]) if pages else b"")


if __name__ == "__main__":
    main()
