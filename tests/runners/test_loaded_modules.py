"""What a job leaves of its environment modules: any bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runners.loaded_modules import LONGEST, MOST, read_modules
from runners.untrusted import Table, validate


def test_names_have_versions_and_files() -> None:
    assert read_modules(b"gcc/13.2:shared\n/opt/gcc/13.2.lua:/opt/shared.lua\n") == {
        "names": ["gcc/13.2", "shared"],
        "files": ["/opt/gcc/13.2.lua", "/opt/shared.lua"],
    }
    assert read_modules(b"gcc/13.2\n\n") == {"names": ["gcc/13.2"], "files": []}


def test_without_modules_there_is_nothing() -> None:
    for content in (b"", b"\n", b"::\n/opt/x.lua", b"\n/opt/x.lua\n"):
        assert read_modules(content) == {}


def test_what_is_no_text_and_what_is_too_much_has_bounds() -> None:
    names = b":".join(b"%d/" % number + b"v" * 500 for number in range(350))
    modules = read_modules(b"caf\xe9/\0\x1b[1m1:" + names)
    assert modules["names"][0] == "caf\N{REPLACEMENT CHARACTER}/\N{REPLACEMENT CHARACTER}[1m1"
    assert len(modules["names"]) == MOST
    assert modules["more"] == 51
    assert all(len(name) <= LONGEST for name in modules["names"])


@given(st.binary())
def test_whatever_it_is_can_be_stored(content: bytes) -> None:
    modules = read_modules(content)
    assert validate(modules, Table()) == modules
