"""What a comparison reads from snapshots."""

from __future__ import annotations

from experiments.fact_comparison import list_differences
from experiments.snapshot_facts import list_facts
from experiments.snapshots import find_differing_facts

TUNED = {"name": "MKL", "version": "2024.1", "threads": 8, "file": "/opt/mkl/libmkl_rt.so.2"}
PLAIN = {"name": "OpenBLAS", "version": "0.3.31", "kernels": "Haswell", "threads": 1}


def of(*libraries: dict[str, object]) -> dict[str, str]:
    return list_facts({"inside": {"hostname": "node1", "blas_loaded": list(libraries)}})


def test_the_blas_that_answered_is_a_fact_and_a_difference_between_environments() -> None:
    assert of(PLAIN)["BLAS that answered"] == "OpenBLAS 0.3.31 (Haswell), threads 1"
    assert list_differences([of(PLAIN)], [of(TUNED)]) == [
        "BLAS that answered: OpenBLAS 0.3.31 (Haswell), threads 1 on the baseline, "
        "MKL 2024.1, threads 8 here"
    ]
    elsewhere = {**PLAIN, "file": "/usr/lib/libopenblas.so.0"}
    assert list_differences([of(PLAIN)], [of(elsewhere)]) == [], "where it lies is the image's own"
    assert list_differences([of(PLAIN, TUNED)], [of(TUNED, PLAIN)]) == []


def test_what_has_loaded_none_or_was_not_asked_says_nothing() -> None:
    assert "BLAS that answered" not in of()
    assert list_facts({"inside": {}}) == list_facts({}) == {}


def test_other_processes_of_a_run_say_only_what_they_saw_otherwise() -> None:
    first = {"hostname": "node1", "packages": {"numpy": "2.5"}, "cpus": [0, 1]}
    alike = {**first, "packages": {"numpy": "2.5"}}
    other = {"hostname": "node2", "packages": {"numpy": "2.5", "six": "1"}}
    assert find_differing_facts(first, {"rank 1": alike, "rank 2": other}) == {
        "rank 2": {"cpus": "", "hostname": "node2", "packages.six": "1"}
    }
