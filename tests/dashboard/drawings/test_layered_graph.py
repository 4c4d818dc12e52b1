"""Arrows of layered drawings cross as seldom as swapping neighbours gets them to."""

from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from dashboard.drawings.layered_graph import Layout

NODES = [f"n{number}" for number in range(14)]
GRAPHS = st.lists(st.tuples(st.integers(0, 13), st.integers(0, 13)).map(sorted), max_size=30).map(
    lambda edges: {
        node: {NODES[low] for low, high in edges if low < high and NODES[high] == node}
        for node in NODES
    }
)


def make_layout(graph: dict[str, set[str]]) -> Layout:
    return Layout(graph, dict.fromkeys(NODES, 40.0), left=0, right=None, gap=10)


def count_crossings(layout: Layout, layers: list[list[str]]) -> int:
    """Count the pairs of arrows that cross, one by one."""
    count = 0
    for lower, upper in pairwise(layers):
        place = {node: i for i, node in enumerate(lower)}
        arrows = [(i, place[end]) for i, node in enumerate(upper) for end in layout.below[node]]
        for (top, bottom), (other_top, other_bottom) in combinations(arrows, 2):
            count += (top - other_top) * (bottom - other_bottom) < 0
    return count


@given(graph=GRAPHS)
def test_crossings_are_counted(graph: dict[str, set[str]]) -> None:
    layout = make_layout(graph)
    assert layout._count_crossings(layout.layers) == count_crossings(layout, layout.layers)


@given(graph=GRAPHS, data=st.data())
def test_neighbours_are_swapped_where_fewer_arrows_then_cross(
    graph: dict[str, set[str]], data: st.DataObject
) -> None:
    layout = make_layout(graph)
    layers = [data.draw(st.permutations(layer)) for layer in layout.layers]
    wanted = [list(layer) for layer in layers]
    for layer in wanted:
        for i in range(len(layer) - 1):
            before = count_crossings(layout, wanted)
            layer[i : i + 2] = reversed(layer[i : i + 2])
            if count_crossings(layout, wanted) >= before:
                layer[i : i + 2] = reversed(layer[i : i + 2])
    layout._swap_neighbours(layers)
    assert layers == wanted
