"""Published results: files of programs on the page, from what is read to the verdict."""

from __future__ import annotations

import html
import json

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from experiments.comparisons.published_tables import compare_published
from experiments.statistics.published.formats import FORMATS
from experiments.statistics.values import Stamp
from tests.dashboard.published_tables import NEW, fields, kept, problem, shown
from tests.experiments.statistics.test_table_formats import FILES, read

pytestmark = pytest.mark.django_db


def text_of(page: object) -> str:
    return html.unescape(page.content.decode())  # type: ignore[attr-defined]


def test_the_page_lists_the_formats_with_a_link_to_how_each_is_read(as_owner: Client) -> None:
    page = text_of(as_owner.get(NEW))
    for each in FORMATS:
        assert f"{each.name}: {each.values}" in page
    assert 'href="/docs/published-tables/"' in page
    docs = text_of(as_owner.get("/docs/published-tables/"))
    assert all(each.name in docs for each in FORMATS)


def test_from_json_of_hyperfine_to_its_verdict(as_owner: Client) -> None:
    text = read("hyperfine.json")
    page = text_of(shown(as_owner, text))
    assert "Read as JSON of hyperfine." in page
    assert "Unit: seconds, in which hyperfine stores times." in page
    assert "16 values read as single runs in s, lower is better" in page
    row = kept(as_owner, text)
    assert row.text.strip() == text.strip(), "the file is kept as it was given"
    (pair,) = compare_published(row).pairs
    times = {each["command"]: each["times"] for each in json.loads(text)["results"]}
    assert (pair.n_baseline, pair.n_environment) == (8, 8)
    assert pair.baseline_mean == pytest.approx(sum(times["bare metal"]) / 8)
    shown_verdict = text_of(as_owner.get(row.get_absolute_url()))
    assert "What does Apptainer cost compared with bare metal?" in shown_verdict
    assert str(pair.verdict) in shown_verdict


def test_several_files_are_one_environment_each(as_owner: Client) -> None:
    names = ["pyperf_bare_metal.json", "pyperf_apptainer.json"]
    files = [SimpleUploadedFile(name, (FILES / name).read_bytes()) for name in names]
    page = as_owner.post(NEW, fields("", action="preview", file=files))
    preview = page.context["form"].preview
    assert preview.problem == ""
    assert preview.environments == ["pyperf_bare_metal", "pyperf_apptainer"]
    assert "==> pyperf_apptainer.json <==" in page.context["form"].table_text
    row = kept(as_owner, page.context["form"].table_text)
    assert [pair.size for pair in compare_published(row).pairs] == ["4 runs each"]
    broken = [files[0], SimpleUploadedFile("b.json", b"PK\x03\x04")]
    assert problem_of(as_owner, broken).startswith("b.json: This is not a CSV but an Excel")


def problem_of(client: Client, files: list[SimpleUploadedFile]) -> str:
    for file in files:
        file.seek(0)
    page = client.post(NEW, fields("", action="preview", file=files))
    found: str = page.context["form"].preview.problem
    return found


def test_values_of_one_process_are_stamped_and_the_methods_say_why(as_owner: Client) -> None:
    row = kept(as_owner, read("pytest_benchmark.json"))
    (pair,) = compare_published(row).pairs
    assert Stamp.ONE_PROCESS in pair.stamps
    page = text_of(as_owner.get(row.get_absolute_url()))
    assert "ONE PROCESS" in page
    assert "takes all rounds of a test in one process" in page


def test_what_a_table_lacks_is_asked_for(as_owner: Client) -> None:
    text = "environment,mean_s,sd_s\nbare,361.2,1.8\nbox,363.9,2.1\n"
    assert "How many runs stand behind each mean?" in text_of(shown(as_owner, text))
    assert "How many runs" not in text_of(shown(as_owner, text, n="5"))
    bare = "environment,mean_s,n\nbare,361.2,5\nbox,363.9,5\n"
    assert "neither an SD nor an SE" in text_of(shown(as_owner, bare))


def test_how_numbers_are_written_is_asked_for_and_kept(as_owner: Client) -> None:
    text = "environment;time_s\nbare;1,234\nbare;1,235\nbox;1,240\nbox;1,241\n"
    page = shown(as_owner, text)
    assert "'1,234' may be 1234 or 1.234" in problem(page)
    assert "It can be said above" in page.context["form"].hint
    row = kept(as_owner, text, decimal="comma")
    assert row.reading["decimal"] == "comma"
    (pair,) = compare_published(row).pairs
    assert pair.baseline_mean == pytest.approx(1.2345)
    edit = as_owner.get(f"{row.get_absolute_url()}edit/")
    assert edit.context["form"]["decimal"].value() == "comma"


@pytest.mark.parametrize("path", sorted(FILES.glob("*.*")), ids=lambda path: path.name)
@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: content[: len(content) // 2],
        lambda content: content.replace(b"1", b"\xff", 5),
        lambda content: b"\xff\xfe" + content,
        lambda content: content * 2,
        lambda content: b"[" * 50_000 + content,
        lambda content: content.replace(b".", b"NaN"),
    ],
    ids=["half", "bytes", "utf-16", "twice", "nested", "nan"],
)
def test_no_spoilt_file_is_an_error_of_ours(path, spoil, as_owner: Client) -> None:  # type: ignore[no-untyped-def]
    file = SimpleUploadedFile(path.name, spoil(path.read_bytes()))
    assert as_owner.post(NEW, fields("", action="preview", file=file)).status_code == 200


def test_nine_megabytes_are_refused(as_owner: Client) -> None:
    times = b"0.5," * (9_000_000 // 4)
    content = b'{"results": [{"command": "a", "times": [' + times + b"1]}]}"
    file = SimpleUploadedFile("hyperfine.json", content)
    page = as_owner.post(NEW, fields("", action="preview", file=file))
    assert page.status_code == 413
    assert "more than the 2 MB that a page takes" in text_of(page)
