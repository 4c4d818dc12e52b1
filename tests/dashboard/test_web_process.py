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
