"""Figures fit to print: described from the statistics, laid out in millimetres, drawn to files.

`forest.describe_forest` turns pairs into the description of a forest plot; `runs`, `scaling` and
the other modules with names of charts fill the common description of figures with axes,
`axes_figure.AxesFigure`. `forest_layout` and `axes_layout` turn these into drawings in millimetres,
and `files.write_file` those into SVG, PNG or PDF, in a process of its own that
`drawing_process.draw` starts, limits and keeps the results of.
"""
