"""Lock files are read, or refused with the line and the reason."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.software.lock_files import Locked, LockError, read_lock

HASH = "--hash=sha256:" + "ab" * 32
names = st.from_regex(r"[a-z][a-z0-9]{0,8}(-[a-z0-9]{1,4})?", fullmatch=True)
versions = st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,3}){0,2}(rc1|\.post1)?", fullmatch=True)


@given(st.lists(st.builds(Locked, names, versions), min_size=1, max_size=9), st.booleans())
def test_what_is_pinned_and_hashed_is_read(rows: list[Locked], folded: bool) -> None:
    between = " \\\n    " if folded else " "
    text = "\n".join(f"{row.name}=={row.version}{between}{HASH}{between}{HASH}" for row in rows)
    assert read_lock(text) == rows


@given(st.text(max_size=300))
def test_whatever_is_typed_is_read_or_refused(text: str) -> None:
    with suppress(LockError):
        assert read_lock(text)


@pytest.mark.parametrize("name", ["numpy", "tensorflow", "horovod"])
def test_the_labs_own_locks_are_read(name: str) -> None:
    text = (Path(__file__).parents[3] / "lab" / "image" / f"{name}.lock").read_text()
    assert "numpy" in {row.name for row in read_lock(text)}


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("numpy==2.3.1", "Line 2 has no hash: numpy==2.3.1"),
        (f"numpy>=2 {HASH}", "Line 2 is not pinned"),
        (f"numpy {HASH}", "Line 2 is not pinned"),
        (
            "--index-url https://user:secret@example.org/simple",
            r"Line 2 is an option \(--index-url\)",
        ),
        ("-r other.txt", "is an option"),
        ("-e .", "is an option"),
        (f"numpy @ https://example.org/numpy.whl {HASH}", "names an address"),
        ("git+https://example.org/numpy", "names an address"),
        ("numpy==2.3.1; $(id)", "Line 2"),
        ("../numpy.whl", "Line 2"),
    ],
)
def test_what_is_no_lock_is_refused_by_its_line(line: str, told: str) -> None:
    with pytest.raises(LockError, match=told) as refused:
        read_lock(f"# made by hand\n{line}\n")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "\n# nothing\n", "x" * 2_000_001, "numpy\0"])
def test_an_empty_or_endless_text_is_no_lock(text: str) -> None:
    with pytest.raises(LockError):
        read_lock(text)
