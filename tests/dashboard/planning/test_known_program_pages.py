"""Known programs on the pages where a program is chosen, and in the form that they fill in."""

from __future__ import annotations

import pytest
from bs4 import BeautifulSoup
from django.test import Client
from django.urls import reverse

from dashboard.planning.pattern_matches import try_patterns
from experiments.models import SentFile, Workload
from experiments.presets.commands import COMMANDS
from experiments.presets.programs import GROUPS
from runners.workloads import WORKLOADS

pytestmark = pytest.mark.django_db


def test_a_known_program_becomes_a_workload_with_its_files(as_owner: Client) -> None:
    """The form stores the files when it is saved, and not when it is looked at."""
    address = reverse("workload_new") + "?ready=hpcc"
    page = as_owner.get(address)
    assert not SentFile.objects.exists()
    form = page.context["form"]
    metrics = form.instance.parameters["metrics"]
    sent = {
        "name": form.instance.name,
        "time_limit_seconds": "900",
        "argv": "sh hpcc.sh hpcc",
        "read": "patterns",
        "file": "hpccoutf.txt",
        "success_pattern": form.instance.parameters["success_pattern"],
        "failure_pattern": form.instance.parameters["failure_pattern"],
        "batch": "",
        "processes": "one",
        "kept": [f"{file.sha256} {file.name}" for file in form.sending],
        "metric-TOTAL_FORMS": str(len(metrics)),
        "metric-INITIAL_FORMS": "0",
    }
    for number, row in enumerate(metrics):
        sent |= {f"metric-{number}-{part}": text for part, text in row.items()}
    answer = as_owner.post(reverse("workload_new") + "?kind=command", sent)
    assert answer.status_code == 302, answer.context["form"].errors
    made = Workload.objects.get()
    assert made.parameters == WORKLOADS["command"].clean(COMMANDS["hpcc"].piece.parameters)
    assert SentFile.objects.count() == 2


@pytest.mark.parametrize("key", COMMANDS)
def test_each_fills_in_the_form(key: str, as_owner: Client) -> None:
    page = as_owner.get(reverse("workload_new"), {"ready": key})
    form = page.context["form"]
    piece = COMMANDS[key].piece.parameters
    needs_python = any("{python}" in word for word in piece["argv"])
    assert form.instance.parameters == dict(piece) | (
        {} if needs_python else {"recorded": "outside"}
    )
    assert form["recorded"].value() == ("inside" if needs_python else "outside")
    assert [file.name for file in form.sending] == sorted(COMMANDS[key].files)


def test_they_stand_by_group_with_what_they_need_and_a_link(as_owner: Client) -> None:
    for address in (reverse("presets"), reverse("workload_new") + "?kind=command"):
        page = BeautifulSoup(as_owner.get(address).content, "html.parser")
        text = page.get_text(" ", strip=True)
        for ready in COMMANDS.values():
            assert ready.piece.name in text
            assert ready.summary in text
            assert ready.needs in text
        assert all(group in text.replace(group.capitalize(), group) for group in GROUPS)
        assert page.select(f'a[href="{reverse("document", args=["benchmarks"])}"]')


def test_more_rows_keep_the_files_of_a_known_program_that_nobody_has_saved_yet(
    as_owner: Client,
) -> None:
    form = as_owner.get(reverse("workload_new") + "?ready=iperf3").context["form"]
    (file,) = form.sending
    sent = {
        "action": "more",
        "read": "json",
        "kept": [f"{file.sha256} {file.name}", f"{'0' * 64} other.sh"],
        "metric-TOTAL_FORMS": "0",
    }
    again = as_owner.post(reverse("workload_new") + "?kind=command", sent).context["form"]
    assert again.sending == [file]
    assert not SentFile.objects.exists()


@pytest.mark.parametrize(
    ("folder", "script"),
    [
        ("/project/tf_cnn/", "/project/tf_cnn/tf_cnn_benchmarks.py"),
        ("/a/b-1.2", "/a/b-1.2/tf_cnn_benchmarks.py"),
        *((wrong, "/benchmarks/tf_cnn_benchmarks.py") for wrong in ("", "rel/x", "/a b", "/a;b")),
        ("/" + "x" * 5000, "/benchmarks/tf_cnn_benchmarks.py"),
        ("/a/{run}", "/benchmarks/tf_cnn_benchmarks.py"),
    ],
)
def test_the_folder_of_a_program_is_typed_on_the_page_of_presets(
    folder: str, script: str, as_owner: Client
) -> None:
    asked = {"ready": "tf-cnn-benchmarks", "folder": folder}
    page = as_owner.get(reverse("workload_new"), asked)
    assert page.context["form"].instance.parameters["argv"][3] == script
    is_refused = bool(folder) and script.startswith("/benchmarks")
    assert ("is no absolute path" in page.content.decode()) is is_refused


def test_a_folder_moves_no_program_that_has_none(as_owner: Client) -> None:
    asked = {"ready": "fio-random", "folder": "/project"}
    form = as_owner.get(reverse("workload_new"), asked).context["form"]
    assert form.instance.parameters["argv"][0] == "fio"


def test_patterns_of_success_and_failure_are_tried_on_the_log(as_owner: Client) -> None:
    parameters = WORKLOADS["command"].clean(
        {
            "argv": ["x"],
            "read": "patterns",
            "metrics": [{"name": "rate", "find": r"rate (\d+)"}],
            "success_pattern": "^done",
            "failure_pattern": "FAILED",
        }
    )
    good = {row.name: row for row in try_patterns(parameters, "rate 5\ndone\n")}
    assert (good["success pattern"].problem, good["success pattern"].lines[0].number) == ("", 2)
    assert (good["failure pattern"].problem, good["failure pattern"].lines) == ("", [])
    bad = {row.name: row for row in try_patterns(parameters, "rate 5\nit FAILED twice\n")}
    assert "never matches" in bad["success pattern"].problem
    assert "matches" in bad["failure pattern"].problem
    (line,) = bad["failure pattern"].lines
    assert (line.before, line.found, line.after) == ("it ", "FAILED", " twice")
    sent = {"argv": "x", "read": "patterns", "failure_pattern": "FAILED", "log": "it FAILED"}
    page = as_owner.post(reverse("workload_try"), sent).content.decode()
    assert "a run that leaves this is not sane" in page


def test_a_pattern_that_cannot_be_used_is_refused_by_the_form(as_owner: Client) -> None:
    sent = {
        "name": "mine",
        "time_limit_seconds": "60",
        "argv": "x",
        "read": "nothing",
        "batch": "",
        "processes": "one",
        "failure_pattern": "(?=x)",
        "metric-TOTAL_FORMS": "0",
        "metric-INITIAL_FORMS": "0",
    }
    answer = as_owner.post(reverse("workload_new") + "?kind=command", sent)
    assert "looks around" in str(answer.context["form"].errors["failure_pattern"])
    assert not Workload.objects.exists()
