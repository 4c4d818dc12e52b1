"""Energy of CPUs, by counters that go round, as a job script writes them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from runners.host_energy import COUNTERS, measure_host_energy, read_counters
from runners.run_measures import NotMeasured
from runners.scripts import TEMPLATE

MOST = 262_143_328_850


def lines(*counts: tuple[float, int], most: int = MOST) -> bytes:
    return "".join(f"{time:.6f} {count}/{most}\n" for time, count in counts).encode()


def test_energy_is_what_the_counter_gained() -> None:
    content = lines(
        (99.0, 1_000_000), (100.01, 2_000_000), (105.0, 502_000_000), (110.0, 1e9 + 2e6)
    )  # type: ignore[arg-type]
    content = content.replace(b".0/", b"/")
    measure = measure_host_energy(content, 100.0, 110.0)
    assert (measure.value, measure.unit, measure.source) == (1000.0, "J", COUNTERS)
    assert measure.detail == "1 package, of the whole node"


def test_a_counter_that_went_round_goes_on() -> None:
    content = lines((100.0, MOST - 400_000_000), (105.0, 100_000_000), (110.0, 600_000_000))
    assert measure_host_energy(content, 100.0, 110.0).value == pytest.approx(1000.0)


def test_packages_are_added() -> None:
    content = (
        b"100.0 5000000/99999999999 0/99999999999\n110.0 9000000/99999999999 1000000/99999999999\n"
    )
    measure = measure_host_energy(content, 100.0, 110.0)
    assert (measure.value, measure.detail) == (5.0, "2 packages, of the whole node")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "does not let users read"),
        (lines((100.0, 5)), "were not read when"),
        (lines((103.0, 5), (110.0, 9)), "were not read when"),
        (lines((100.0, 5), (107.0, 9)), "were not read when"),
        (lines((100.0, 5), (110.0, 5)), "above zero"),
        (lines((100.0, 5), (110.0, 9), most=1000), "gone round"),
        (b"100.0 5/9999999999\n110.0 5/9999999999 6/9999999999\n" * 2, "not all"),
        (b"nan 5/9\n-1.0 5/9\n100.0 -5/9\n110.0 nan/9\n", "were not read when"),
    ],
)
def test_what_cannot_be_known_is_not_measured(content: bytes, words: str) -> None:
    with pytest.raises(NotMeasured, match=words):
        measure_host_energy(content, 100.0, 110.0)


def test_a_line_that_is_cut_off_is_left_out() -> None:
    assert len(read_counters(lines((1.0, 5), (2.0, 6))[:-1])) == 1


def test_the_script_reads_whole_packages_that_it_may_read(tmp_path: Path) -> None:
    """A tree like the kernel's: two packages, a part of one, the platform, one that is root's."""
    powercap = tmp_path / "power cap"
    for name, what, energy, most in (
        ("intel-rapl:0", "package-0", "123", "1000"),
        ("intel-rapl:1", "package-1", "456", "2000"),
        ("intel-rapl:0:0", "core", "9", "1000"),
        ("intel-rapl:2", "psys", "999", "1000"),
        ("intel-rapl:10", "package-10", "", "1000"),
    ):
        place = powercap / name
        place.mkdir(parents=True)
        (place / "name").write_text(f"{what}\n")
        (place / "max_energy_range_uj").write_text(f"{most}\n")
        (place / "energy_uj").write_text(energy and f"{energy}\n")
    (tmp_path / "samples").mkdir()
    text = re.search(
        r"^cpu_packages=.*?(?=^# Append a line to samples/node)",
        TEMPLATE.read_text(),
        re.DOTALL | re.MULTILINE,
    )
    assert text
    script = (
        f"job='{tmp_path}' powercap='{powercap}'\nnow() {{ moment=12.5; }}\n{text[0]}"
        "choose_cpu_counters\nread_cpu_energy\nread_cpu_energy\n"
    )
    subprocess.run(["bash", "-eu", "-c", script], check=True)
    written = (tmp_path / "samples" / "rapl.txt").read_text()
    assert written == "12.5 123/1000 456/2000\n" * 2
