"""What a web process does before it answers."""

from __future__ import annotations

import subprocess
import sys

import pytest

from experiments.comparisons.comparison_keys import BASE

ASK = """
import gc, sys
import dashboard.wsgi
print(gc.isenabled(), gc.get_threshold()[0], gc.get_freeze_count() > 50_000)
print("dashboard.comparisons.comparison_views" in sys.modules)
"""


@pytest.mark.django_db
def test_its_search_for_garbage_is_seldom_and_leaves_out_what_stays() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", ASK], cwd=BASE, capture_output=True, text=True, check=False
    )
    assert answer.stdout.split() == ["True", "10000", "True", "True"], answer.stderr


def test_no_process_of_the_site_imports_what_takes_60_mb_for_one_quantile() -> None:
    """`scipy.special` has what the statistics need; `scipy.stats` takes 60 MB of each process."""
    ask = "import sys; import dashboard.wsgi; print(sorted(sys.modules.keys() & {'scipy.stats'}))"
    answer = subprocess.run(
        [sys.executable, "-c", ask], cwd=BASE, capture_output=True, text=True, check=False
    )
    assert answer.stdout.strip() == "[]", answer.stderr


ASK_FOR_MODULES = """
import sys
import dashboard.wsgi
from django.urls import reverse
reverse("overview")
print(*sorted(sys.modules.keys() & {*sys.argv[1:]}))
"""
LARGE = (
    *("pyarrow", "numpy", "scipy", "pandas", "matplotlib", "fontTools", "plotly.graph_objects"),
    *("ninja", "pydantic", "django.test", "jinja2", "dashboard.api.api", "invoke.context"),
)
"""Of ten to a hundred MB each, with what they import. pyarrow and matplotlib are for processes of
their own, numpy is imported by the pages that compute, and the API when it is first asked."""


def ask(source: str, *arguments: str) -> str:
    answer = subprocess.run(
        [sys.executable, "-c", source, *arguments],
        cwd=BASE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.strip()


def test_it_starts_without_large_libraries() -> None:
    assert ask(ASK_FOR_MODULES, *LARGE) == ""


ASK_API = """
import sys
from dashboard.wsgi import application
from django.urls import resolve, reverse
assert "ninja" not in sys.modules
print(resolve("/api/v1/me").url_name, reverse("api:read_me"), resolve("/api/").route)
"""


def test_the_api_is_there_when_it_is_asked() -> None:
    assert ask(ASK_API) == "read_me /api/v1/me api/"


def test_an_address_of_the_api_may_be_the_first_that_is_written() -> None:
    source = "import dashboard.wsgi; from django.urls import reverse; "
    assert ask(f"{source}print(reverse('api:read_me'), reverse('overview'))") == "/api/v1/me /"


WRITE_FILE = """
import sys
import dashboard.wsgi
from dashboard.arrow import writing_process
from experiments.comparisons.typed_tables import TypedColumn, TypedTable
assert b"".join(writing_process.write_table(TypedTable([TypedColumn("a")], [[["b"]]]), "parquet"))
print(*sorted(sys.modules.keys() & {"pyarrow", "pandas", "numpy"}))
"""


def test_a_parquet_file_brings_no_library_into_it() -> None:
    assert ask(WRITE_FILE) == ""


GIVE_BACK = """
import sys
from dashboard.freed_memory import give_back_early

def read_memory():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

if sys.argv[1:]:
    assert give_back_early()
before = read_memory()
for _ in range(2):
    large = bytearray(8 * 1024 * 1024)  # after which glibc would keep blocks of this size
    large[:] = b"x" * len(large)
    del large
blocks = [bytes(1000) + b"x" * 200_000 for _ in range(100)]
between = b"y" * 900_000  # behind them
del blocks
print((read_memory() - before) // 2**20)
"""


def test_large_blocks_are_given_back_to_the_system() -> None:
    assert int(ask(GIVE_BACK, "early")) <= 1
    assert int(ask(GIVE_BACK)) >= 10, "glibc alone keeps them"


GIVE_BACK_FREE = """
from dashboard.freed_memory import free_memory, give_back_early

def read_memory():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 // 2**20

give_back_early()
assert not free_memory.give_back()  # nothing is free yet
free_memory._due_at = 0
blocks = [b"x" * 20_000 for _ in range(2000)]
del blocks[::2]
before = read_memory()
print(free_memory.give_back(), free_memory.give_back(), before - read_memory() >= 5)
"""


def test_what_is_free_between_blocks_is_given_back_but_not_all_the_time() -> None:
    assert ask(GIVE_BACK_FREE) == "True False True"
