"""The form of a user's own program: its files, its metrics, and a log on which they are tried."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from dashboard.planning.pattern_matches import try_patterns
from experiments.models import SentFile, Workload
from experiments.presets.commands import COMMANDS
from runners.workloads.command import Command
from runners.workloads.given import LARGEST_FILE
from tests.tf_cnn_logs import output

pytestmark = pytest.mark.django_db

NEW = "/catalogue/workloads/new/?kind=command"
TOTAL = r"^total images/sec: ([\d.]+)"


def rows(*metrics: dict[str, str]) -> dict[str, str]:
    """Metrics as the form sends them."""
    sent = {"metric-TOTAL_FORMS": str(len(metrics)), "metric-INITIAL_FORMS": "0"}
    for number, metric in enumerate(metrics):
        filled = {"better": "lower", "take": "last", **metric}
        sent |= {f"metric-{number}-{part}": text for part, text in filled.items()}
    return sent


def filled(**changes: Any) -> dict[str, Any]:
    known = {"name": "mine", "time_limit_seconds": "60", "argv": "{python} train.py"}
    return known | {"read": "recorder", "batch": "", "processes": "one"} | rows() | changes


def file(name: str, content: bytes = b"from tare import x\n") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, content)


def errors(answer: Any) -> str:
    assert answer.status_code == 200
    form = answer.context["form"]
    found = [*form.errors.values(), *(e for one in form.metrics.errors for e in one.values())]
    return " ".join(text for texts in found for text in texts)


def test_a_program_its_files_and_metrics_make_a_workload(as_owner: Client) -> None:
    sent = filled(uploads=[file("train.py"), file("data.bin", b"\xff\x00")], burn_in="5") | rows(
        {"name": "accuracy", "unit": "", "better": "higher"}, {"name": "", "unit": "", "find": ""}
    )
    answer = as_owner.post(NEW, sent)
    assert answer.status_code == 302, errors(answer)
    made = Workload.objects.get()
    assert made.parameters["argv"] == ["{python}", "train.py"]
    assert made.parameters["burn_in"] == 5
    assert made.parameters["metrics"] == [
        {"name": "accuracy", "unit": "1", "better": "higher", "find": "", "take": "last"}
    ]
    contents = SentFile.objects.contents(made.parameters["files"])
    assert contents == {"train.py": b"from tare import x\n", "data.bin": b"\xff\x00"}
    shown = as_owner.get(reverse("workload", args=[made.pk])).content.decode()
    assert made.parameters["files"]["train.py"][:12] in shown
    assert "accuracy in 1 (higher is better)" in shown
    assert "from tare import x" not in shown, "contents are in no table"


def test_the_form_shows_an_example_and_links_to_its_document(as_owner: Client) -> None:
    page = as_owner.get(NEW).content.decode()
    assert 'placeholder="{python} train.py --epochs 3"' in page
    assert 'href="/docs/bring-your-own-benchmark/"' in page
    assert "bring-your-own" not in as_owner.get(f"{NEW[:-7]}blas").content.decode()


def list_folded(page: str) -> list[str]:
    """Return the headings of the groups of fields that are folded."""
    return re.findall(r'<details class="group">\s*<summary>(.+?) <small>', page)


def test_groups_that_hold_only_defaults_are_folded(as_owner: Client) -> None:
    address = f"{reverse('workload_new')}?kind=command"
    groups = ["Its code", "On several GPUs", "Several jobs for one run"]
    assert list_folded(as_owner.get(address).content.decode()) == groups
    page = as_owner.post(address, {"name": "", "segments": "3", "code_commit": "1"})
    assert list_folded(page.content.decode()) == ["On several GPUs"]
    wrong = SimpleUploadedFile("code.zip", b"no archive")
    page = as_owner.post(address, {"name": "", "code_file": wrong})
    assert list_folded(page.content.decode()) == groups[1:]


def test_editing_keeps_replaces_and_leaves_out_files(as_owner: Client) -> None:
    as_owner.post(NEW, filled(uploads=[file("train.py"), file("old.txt")]))
    made = Workload.objects.get()
    edit = reverse("workload_edit", args=[made.pk])
    page = as_owner.get(edit).content.decode()
    kept = [f"{sha256} {name}" for name, sha256 in made.parameters["files"].items()]
    for text in kept:
        assert f'name="kept" value="{text}"' in page
    as_owner.post(edit, filled(kept=kept, drop=["old.txt"], uploads=[file("train.py", b"new")]))
    made.refresh_from_db()
    assert SentFile.objects.contents(made.parameters["files"]) == {"train.py": b"new"}


def test_a_form_with_a_mistake_keeps_what_was_uploaded(as_owner: Client) -> None:
    answer = as_owner.post(NEW, filled(name="", uploads=[file("train.py")]))
    row = SentFile.objects.get()
    assert f'name="kept" value="{row.sha256} train.py"' in answer.content.decode()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"argv": ""}, "Command must say which program to start"),
        ({"argv": "sh 'x"}, "Command cannot be split into words"),
        ({"argv": "{python} train.py"}, "Command starts train.py, but no file is sent"),
        (
            {"argv": "{python} trian.py", "uploads": [file("train.py")]},
            "Command starts trian.py, which is not among the files sent; the nearest is train.py.",
        ),
        ({"uploads": [file("a b.py")]}, "has a plain name"),
        ({"uploads": [file("tare.py")]}, "Tare’s own recorder"),
        ({"uploads": [file("big", b"x" * (LARGEST_FILE + 1))]}, "big has 1,000,001 bytes"),
        (
            {"uploads": [file(f"f{n}", b"x" * LARGEST_FILE) for n in range(5)]},
            "Together the files have 5,000,000 bytes",
        ),
        ({"uploads": [file(f"f{n}") for n in range(21)]}, "21 files; at most 20"),
        ({"read": "csv", "file": ""} | rows({"name": "a"}), "File to read must name the file"),
        (rows({"name": "a b"}), "A name is letters, digits and _"),
        (rows({"name": "a"}, {"name": "a"}), "a is there twice"),
        ({"read": "patterns"} | rows({"name": "a", "find": "(?<=x)(1)"}), "at character 1, (?<="),
        ({"read": "patterns"} | rows({"name": "a", "find": "(a)(b)"}), "it has 2 groups in ( )"),
        ({"read": "patterns"} | rows({"name": "a", "find": "x ("}), "at character 3: missing )"),
        ({"primary": "speed"}, "must be one of step_time"),
    ],
)
def test_what_cannot_run_is_said_where_it_stands(
    changes: dict[str, Any], words: str, as_owner: Client
) -> None:
    for upload in changes.get("uploads", []):
        upload.seek(0)
    assert words in errors(as_owner.post(NEW, filled() | changes))
    assert not Workload.objects.exists()


def test_a_file_that_the_command_starts_cannot_be_left_out(as_owner: Client) -> None:
    as_owner.post(NEW, filled(uploads=[file("train.py")]))
    made = Workload.objects.get()
    kept = [f"{sha256} {name}" for name, sha256 in made.parameters["files"].items()]
    edit = reverse("workload_edit", args=[made.pk])
    answer = as_owner.post(edit, filled(kept=kept, drop=["train.py"]))
    assert "Command starts train.py, but no file is sent" in errors(answer)
    assert 'id="id_argv_error"' in answer.content.decode()
    made.refresh_from_db()
    assert list(made.parameters["files"]) == ["train.py"]


class TestTrying:
    """A log that was pasted shows at once what each metric reads."""

    def tried(self, client: Client, log: str, *metrics: dict[str, str], **changes: str) -> str:
        sent = filled(log=log, **{"read": "patterns", **changes}) | rows(*metrics)
        answer = client.post(reverse("workload_try"), sent)
        assert answer.status_code == 200
        return " ".join(answer.content.decode().split())

    def test_shows_the_value_and_where_it_stands(self, as_owner: Client) -> None:
        shown = self.tried(as_owner, output(), {"name": "rate", "unit": "images/s", "find": TOTAL})
        assert '<span class="number">127.5 images/s</span>' in shown
        assert "the only match" in shown
        assert "total images/sec: <mark>127.50</mark>" in shown

    def test_says_the_mean_of_the_steps_and_the_burn_in(self, as_owner: Client) -> None:
        find = r"^\d+\timages/sec: ([\d.]+)"
        metric = {"name": "rate", "unit": "images/s", "find": find, "take": "series"}
        shown = self.tried(as_owner, output(rates=(100, 200, 300, 400)), metric, burn_in="2")
        assert '<span class="number">350 images/s</span>' in shown
        assert "the mean, each a step, of 4 without the first 2, the warm-up" in shown

    def test_says_no_warm_up_of_a_number_that_has_none(self, as_owner: Client) -> None:
        find = {"name": "rate", "unit": "images/s", "find": r"^\d+\timages/sec: ([\d.]+)"}
        assert "the last of 4</small>" in self.tried(as_owner, output(), find, burn_in="2")
        assert "the mean of 4</small>" in self.tried(as_owner, output(), find | {"take": "mean"})

    @pytest.mark.parametrize(
        ("find", "words"),
        [
            (r"speed: (\d+)", "never matched"),
            (r"Model:\s+(\w+)", "which is no number"),
            (r"(", "at character 1"),
        ],
    )
    def test_says_what_would_fail(self, find: str, words: str, as_owner: Client) -> None:
        shown = self.tried(as_owner, output(), {"name": "rate", "find": find})
        assert words.lower() in shown.lower()

    def test_refuses_more_matches_than_anybody_waits_for(self, as_owner: Client) -> None:
        shown = self.tried(as_owner, "1\n" * 20_001, {"name": "rate", "find": r"(\d)"})
        assert "More than 20,000 matches; paste less of the log" in shown

    @pytest.mark.parametrize("said", ["nan", "-0.5", "None", "***", "-inf"])
    def test_warns_of_lines_that_match_but_for_their_number(
        self, said: str, as_owner: Client
    ) -> None:
        log = f"loss: 2.5\nloss: {said}\nloss of life: 1\n"
        shown = self.tried(as_owner, log, {"name": "loss", "find": r"loss: ([\d.]+)"})
        assert "Not read: these lines match but for their number." in shown
        assert f'<span class="muted">2</span> loss: <mark>{said}</mark>' in shown
        assert shown.count("<mark>") == 2

    @pytest.mark.parametrize("rest", [",234.5", "e-05", ".5"])
    def test_warns_of_a_number_that_is_cut_off(self, rest: str, as_owner: Client) -> None:
        shown = self.tried(as_owner, f"loss: 1{rest}\n", {"name": "loss", "find": r"loss: (\d+)"})
        assert "Cut off: the number goes on where the pattern ends.</p> <pre>" in shown
        assert f"<mark>1</mark>{rest}" in shown

    def test_a_log_that_is_read_whole_has_no_warning(self, as_owner: Client) -> None:
        shown = self.tried(as_owner, output(), {"name": "rate", "find": TOTAL})
        assert "Not read" not in shown
        assert "Cut off" not in shown

    def test_running_rates_say_what_they_need(self, as_owner: Client) -> None:
        find = {"name": "rate", "unit": "images/s", "take": "running_rate"}
        plain = find | {"find": r"^\d+\timages/sec: ([\d.]+)"}
        refused = as_owner.post(NEW, filled(read="patterns") | rows(plain))
        assert "needs a pattern with two groups, the step and the rate" in errors(refused)
        shown = self.tried(as_owner, output(), find | {"find": r"^(?P<step>\d+)\t.*?: ([\d.]+)"})
        assert '<span class="number">128 images/s</span>' in shown
        assert "the last, a mean of all steps so far, of 4" in shown

    def test_a_pattern_that_would_backtrack_for_ever_ends(self, as_owner: Client) -> None:
        shown = self.tried(as_owner, "a" * 100_000, {"name": "x", "find": "(?:a+)+b(1)"})
        assert "never matched" in shown.lower()

    def test_nothing_it_holds_becomes_markup(self, as_owner: Client) -> None:
        shown = self.tried(as_owner, "<b>1</b>", {"name": "<i>", "find": "<b>(1)"})
        assert "&lt;b&gt;<mark>1</mark>" in shown
        assert "<i>" not in shown

    def test_csv_and_json_are_tried_too(self, as_owner: Client) -> None:
        metric = {"name": "loss", "unit": "1", "take": "mean"}
        assert '= <span class="number">1.5</span>' in self.tried(
            as_owner, "loss\n1\n2\n", metric, read="csv"
        )
        assert "There is no &#x27;loss&#x27;" in self.tried(as_owner, "{}", metric, read="json")

    def test_works_without_javascript(self, as_owner: Client) -> None:
        sent = filled(action="try", read="patterns", log=output(), uploads=[file("train.py")])
        sent |= rows({"name": "rate", "unit": "images/s", "find": TOTAL})
        answer = as_owner.post(NEW, sent)
        page = answer.content.decode()
        assert "<mark>127.50</mark>" in page
        assert "train.py" in page
        assert 'value="mine"' in page
        assert not answer.context["form"].errors
        assert not Workload.objects.exists()
        assert len(answer.context["form"].metrics) == 3


def test_copies_begin_with_files_and_metrics(as_owner: Client) -> None:
    as_owner.post(NEW, filled(uploads=[file("train.py")]) | rows({"name": "loss"}))
    made = Workload.objects.get()
    page = as_owner.get(reverse("workload_new") + f"?copy={made.pk}").content.decode()
    assert "train.py" in page
    assert 'name="metric-0-name" value="loss"' in page


@pytest.mark.parametrize("key", [key for key in COMMANDS if key.startswith("tf-cnn")])
def test_tf_cnn_benchmarks_is_ready_and_reads_what_it_prints(key: str, as_owner: Client) -> None:
    page = as_owner.get(reverse("workload_new"), {"ready": key})
    form = page.context["form"]
    assert "/benchmarks/tf_cnn_benchmarks.py" in page.content.decode()
    parameters = Command.clean(form.instance.parameters)
    log = output(rates=(56.9, 57.1, 57.3, 57.2), total=56.5, loss="7.912")
    found = {one.name: (one.number, one.problem) for one in try_patterns(parameters, log)}
    assert found == {
        "wall_images_per_second": ("56.5", ""),
        "step_images_per_second": ("57.2", ""),
        "loss": ("7.912", ""),
    }


def test_how_it_is_recorded_and_the_page_cache_stay_while_somebody_is_typing(
    as_owner: Client,
) -> None:
    sent = filled(
        argv="train", read="nothing", recorded="outside", page_cache="cold", action="more"
    )
    form = as_owner.post(NEW, sent).context["form"]
    assert (form["recorded"].value(), form["page_cache"].value()) == ("outside", "cold")
    sent["action"] = "save"
    answer = as_owner.post(NEW, sent)
    assert answer.status_code == 302, errors(answer)
    parameters = Workload.objects.get().parameters
    assert (parameters["recorded"], parameters["page_cache"]) == ("outside", "cold")
