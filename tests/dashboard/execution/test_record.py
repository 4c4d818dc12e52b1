"""The panel on what ran and what is kept of it, and its files."""

from __future__ import annotations

import json
import zlib

import pytest
from django.test import Client
from django.urls import reverse

from experiments.models import Experiment, Run, Snapshot, StoredRecord
from tests.dashboard.conftest import People

pytestmark = pytest.mark.django_db

PRINTED = b"caf\xe9 \0 <script>alert(1)</script>\n"
DIGEST = "ab" * 32
INSIDE = {
    "variables": {"LOADEDMODULES": "gcc/13.2:openmpi/5.0"},
    "program": {
        "files": [
            {"word": "train", "path": "/opt/train", "bytes": 3000, "sha256": "cd" * 32},
            {"word": "#! of train", "path": "/usr/bin/python3", "is_python": True},
        ],
        "libraries": {"libm.so.6": {}, "libc.so.6": {}},
        "checkouts": {
            "/opt/net": {"commit": "9f" * 20, "branch": "main", "changed": 7}
            | {"changed_files": [f"part{number}.py" for number in range(7)]}
            | {"patch": "diff --git a/part0.py b/part0.py\n-<b>caf\xe9\n"}
            | {"left_out": [{"file": "part1.py", "reason": "it is no text"}]}
            | {"left_out_count": 3},
        },
    },
    "loaded": {
        "files": {
            "/home/smith/lib/libcudnn.so.8": {"soname": "libcudnn.so.8", "bytes": 5, "home": True}
            | {"sha256": DIGEST},
            "/.singularity.d/libs/libcuda.so.1": {"ends_sha256": "ef" * 32, "bytes": 9}
            | {"mount": "/.singularity.d/libs/libcuda.so.1"},
            "/usr/lib/libgone.so": {"problem": "deleted meanwhile"},
        }
        | {f"/usr/lib/lib{number:03}.so": {"sha256": DIGEST} for number in range(150)},
    },
}


@pytest.fixture
def recorded(run: Run) -> Run:
    """A run in a container of which everything is known."""
    modules = {"names": ["cuda/12.4", "<i>"], "files": []}
    snapshot = Snapshot.objects.keep({"inside": INSIDE, "modules": modules})
    spec = {**run.spec, "environment": {"image_path": "/images/x.sif"}}
    Run.objects.filter(pk=run.pk).update(snapshot=snapshot, spec=spec)
    files = [["café.bin", 3, DIGEST], ["output.txt", len(PRINTED), ""]]
    StoredRecord.objects.create(
        run=run,
        output=zlib.compress(PRINTED),
        output_bytes=len(PRINTED),
        files=zlib.compress(json.dumps(files).encode()),
        files_listed=2,
        facts={"argv": ["/opt/train", "--name=it's"], "loaded": {"readings": 4}},
    )
    run.refresh_from_db()
    return run


def read_page(client: Client, run: Run) -> str:
    return " ".join(client.get(run.get_absolute_url()).content.decode().split())


def test_the_page_says_what_ran_and_what_is_to_be_noticed(recorded: Run, as_owner: Client) -> None:
    page = read_page(as_owner, recorded)
    for words in (
        "/opt/train &#x27;--name=it&#x27;&quot;&#x27;&quot;&#x27;s&#x27;",
        '<code class="anywhere">gcc/13.2</code>',
        '<code class="anywhere">openmpi/5.0</code>',
        "cd" * 32,
        "Linked with 2 libraries.",
        "/opt/net at commit 9f9f9f9f9f9f (main), 7 files changed since: part0.py, part1.py, "
        "part2.py, part3.py, part4.py and 2 more; without the text of part1.py (it is no text) "
        "and 2 more.",
        '<dt>Modules outside</dt> <dd><code class="anywhere">cuda/12.4</code> '
        '<code class="anywhere">&lt;i&gt;</code>',
        "Text of these changes: 43 B",
        "153 programs and libraries, 1 under a home folder, 1 from outside the image, "
        "1 with a check sum of size and both ends alone.",
        "outside the image, from /.singularity.d/libs/libcuda.so.1",
        "not read: deleted meanwhile",
        "53 more are in the JSON file.",
        "2 with name, size and check sum",
    ):
        assert words in page
    # What is to be noticed stands before a hundred others.
    assert page.index("/home/smith/lib/libcudnn.so.8") < page.index("/usr/lib/lib000.so")


def test_on_bare_metal_a_mount_of_its_own_is_nothing_to_notice(
    recorded: Run, as_owner: Client
) -> None:
    Run.objects.filter(pk=recorded.pk).update(spec={"environment": {"image_path": ""}})
    page = read_page(as_owner, recorded)
    assert "outside the image" not in page
    assert "1 under a home folder" in page


def test_the_output_is_downloaded_byte_for_byte(recorded: Run, as_owner: Client) -> None:
    answer = as_owner.get(reverse("run_output", args=[recorded.uid]))
    assert answer.content == PRINTED
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"].startswith("attachment")


def test_the_text_of_changes_is_downloaded(recorded: Run, as_owner: Client) -> None:
    answer = as_owner.get(reverse("run_changes", args=[recorded.uid]))
    assert answer.content.decode() == (
        f"# /opt/net at commit {'9f' * 20}\ndiff --git a/part0.py b/part0.py\n-<b>caf\xe9\n"
    )
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"].startswith("attachment")


def test_tables_of_facts_have_its_check_sum_alone(recorded: Run, as_owner: Client) -> None:
    htmx = {"HX-Request": "true"}
    address = f"{recorded.get_absolute_url()}?facts=patch"
    found = as_owner.get(address, headers=htmx).content.decode()
    assert "checkouts./opt/net.patch" in found
    assert "sha256 " in found
    assert "diff --git" not in found


def test_the_record_is_a_json_file(recorded: Run, as_owner: Client) -> None:
    document = as_owner.get(reverse("run_record", args=[recorded.uid])).json()
    assert document["command"]["inside"] == ["/opt/train", "--name=it's"]
    assert document["modules"] == ["gcc/13.2", "openmpi/5.0"]
    assert document["modules_outside"] == ["cuda/12.4", "<i>"]
    assert document["files"] == [
        {"path": "café.bin", "bytes": 3, "sha256": DIGEST},
        {"path": "output.txt", "bytes": len(PRINTED), "sha256": None},
    ]
    loaded = document["snapshot"]["inside"]["loaded"]["files"]
    assert loaded["/home/smith/lib/libcudnn.so.8"]["sha256"] == DIGEST


def test_whoever_may_not_see_the_experiment_gets_neither(recorded: Run, people: People) -> None:
    Experiment.objects.filter(pk=recorded.experiment_id).update(visibility="private")
    for name in ("run_output", "run_record", "run_changes"):
        address = reverse(name, args=[recorded.uid])
        assert people.client("other").get(address).status_code == 404
        assert Client().get(address).status_code == 302


def test_a_run_from_before_has_a_page_and_says_what_is_missing(run: Run, as_owner: Client) -> None:
    snapshot = Snapshot.objects.keep({"inside": {"hostname": "n1"}})
    Run.objects.filter(pk=run.pk).update(snapshot=snapshot)
    page = read_page(as_owner, run)
    assert "Its whole output and the list of its files were not kept." in page
    for name in ("run_output", "run_changes"):
        assert as_owner.get(reverse(name, args=[run.uid])).status_code == 404
    assert as_owner.get(reverse("run_record", args=[run.uid])).json()["output"] is None


def test_loaded_files_are_found_by_the_search_and_not_listed_twice(
    recorded: Run, as_owner: Client
) -> None:
    address = recorded.get_absolute_url()
    htmx = {"HX-Request": "true"}
    listed = as_owner.get(f"{address}?facts=", headers=htmx).content.decode()
    assert "libcudnn" not in listed
    found = as_owner.get(f"{address}?facts=libcudnn", headers=htmx).content.decode()
    assert "loaded./home/smith/lib/libcudnn.so.8" in found
    assert f"sha256 {DIGEST[:12]}" in found


@pytest.mark.parametrize(
    "program",
    [
        True,
        ["x"],
        "x",
        {"libraries": 3, "files": {"a": 1}, "checkouts": ["x"]},
        {"checkouts": {"/a": 3, "/b": {"changed": 2, "changed_files": 7}, "/c": {"changed": "x"}}},
    ],
)
def test_a_program_of_another_shape_leaves_a_page(
    run: Run, as_owner: Client, program: object
) -> None:
    snapshot = Snapshot.objects.keep({"inside": {"program": program}})
    Run.objects.filter(pk=run.pk).update(snapshot=snapshot)

    for name in ("run", "run_record"):
        assert as_owner.get(reverse(name, args=[run.uid])).status_code == 200
