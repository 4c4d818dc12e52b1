"""Figures fit to print: described from the statistics, laid out in millimetres, drawn to files.

`forest.describe_forest` turns pairs into a description, `forest_layout.lay_out_forest` that into
drawings in millimetres, and `files.draw_to_file` those into SVG, PNG or PDF, in a process of its
own that `drawing_process.draw` starts, limits and keeps the results of.
"""
