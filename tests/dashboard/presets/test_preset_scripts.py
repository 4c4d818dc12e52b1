"""The preset of tf_cnn_benchmarks with a folder, a commit or an archive, by form and by the API."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from experiments.code_copies.archives import keep_archive
from experiments.models import CodeArchive, CodeCopy, Experiment, Operation, Workload
from experiments.presets import PRESETS
from tests.dashboard.api.requests_by_token import get, log_in
from tests.dashboard.api.test_preset_routes import list_fields, send
from tests.dashboard.conftest import People, Site
from tests.factories import CodeCopyFactory, CredentialFactory, UserFactory
from tests.runners.code_archives import make_tar, make_tf_cnn_tar, name_member

pytestmark = pytest.mark.django_db

KEY = "tf-cnn-benchmarks"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
ADDRESS = "https://example.org/benchmarks.git"
FOLDED = '<details class="text">\n  <summary>An archive that was sent before</summary>'
IN_ARCHIVE = "{code}/benchmarks/scripts/tf_cnn_benchmarks/tf_cnn_benchmarks.py"


@pytest.fixture(autouse=True)
def _own_store(settings: Any, tmp_path: Path) -> None:
    settings.IMAGE_STORE = str(tmp_path / "store")


@pytest.fixture
def by_ssh(site: Site, people: People) -> Site:
    """Let the owner send jobs to the cluster."""
    site.cluster.owner = people.owner
    site.cluster.credential = CredentialFactory(owner=people.owner)
    site.cluster.transport, site.cluster.host = "ssh", "a.example"
    site.cluster.save()
    return site


def fill_in(site: Site, **fields: Any) -> dict[str, Any]:
    chosen = [site.bare.pk, site.container.pk]
    return {
        "cluster": site.cluster.pk,
        "size": "laptop",
        "environments": chosen,
        "baseline": site.bare.pk,
        **fields,
    }


def use(client: Client, site: Site, **fields: Any) -> Any:
    return client.post(reverse("preset", args=[KEY]), fill_in(site, **fields), follow=True)


def find_script() -> str:
    (workload,) = Experiment.objects.get().workloads.all()
    return str(workload.parameters["argv"][3])


def make_archive(*names: str) -> SimpleUploadedFile:
    content = make_tar(*((name_member(name), b"x") for name in names))
    return SimpleUploadedFile("code.tar", content)


def test_left_empty_it_is_the_folder_of_the_image(as_owner: Client, by_ssh: Site) -> None:
    use(as_owner, by_ssh)
    assert find_script() == "/benchmarks/tf_cnn_benchmarks.py"
    assert not CodeCopy.objects.exists()


def test_a_folder_in_every_environment(as_owner: Client, by_ssh: Site) -> None:
    text = use(as_owner, by_ssh, script_folder="/project/tf-cnn/").content.decode()
    assert find_script() == "/project/tf-cnn/tf_cnn_benchmarks.py"
    assert "/project/tf-cnn/tf_cnn_benchmarks.py. Whether that is there is not known" in text


def test_a_commit_is_fetched_as_soon_as_the_draft_is_made(as_owner: Client, by_ssh: Site) -> None:
    answer = use(as_owner, by_ssh, code_repository=ADDRESS, code_commit=COMMIT)
    assert find_script() == "{code}/scripts/tf_cnn_benchmarks/tf_cnn_benchmarks.py"
    copy = CodeCopy.objects.get()
    assert (copy.commit, copy.repository, copy.state) == (COMMIT, ADDRESS, "staging")
    assert Operation.objects.get().kind == "fetch_code"
    text = answer.content.decode()
    assert f"Its code is being put on {by_ssh.cluster}; the page of " in text
    again = use(as_owner, by_ssh, code_repository=ADDRESS, code_commit=COMMIT).content.decode()
    assert "being put on lab already" in again
    assert CodeCopy.objects.count() == 1


def test_code_that_is_there_already_is_not_put_there_again(as_owner: Client, by_ssh: Site) -> None:
    CodeCopyFactory(cluster=by_ssh.cluster, commit=COMMIT, repository=ADDRESS)
    use(as_owner, by_ssh, code_repository=ADDRESS, code_commit=COMMIT, script_folder="{code}/x")
    assert find_script() == "{code}/x/tf_cnn_benchmarks.py"
    assert not Operation.objects.exists()


def test_a_cluster_without_a_key_makes_the_draft_and_says_why_not(
    as_owner: Client, site: Site
) -> None:
    site.cluster.transport = "by_hand"
    site.cluster.save()
    answer = use(as_owner, site, code_repository=ADDRESS, code_commit=COMMIT)
    assert Experiment.objects.exists()
    assert "Its code is not put on" in answer.content.decode()
    assert not CodeCopy.objects.exists()


def test_an_archive_shows_where_the_script_lies(as_owner: Client, by_ssh: Site) -> None:
    page = as_owner.get(reverse("preset", args=[KEY])).content.decode()
    assert 'enctype="multipart/form-data"' in page
    assert FOLDED in page
    file = SimpleUploadedFile("benchmarks.tar.gz", make_tf_cnn_tar())
    use(as_owner, by_ssh, code_file=file)
    assert find_script() == IN_ARCHIVE
    archive = CodeArchive.objects.get()
    assert Workload.objects.get(kind="command").parameters["code_archive"] == archive.sha256
    assert CodeCopy.objects.get().archive == archive
    assert CodeCopy.objects.get().state == "staging"


@pytest.mark.parametrize(
    ("fields", "name", "problem"),
    [
        ({"script_folder": "here"}, "script_folder", "is an absolute path"),
        ({"script_folder": "{code}/x"}, "script_folder", "you name below"),
        ({"script_folder": "/a b"}, "script_folder", "of letters, digits"),
        ({"code_commit": COMMIT}, "code_repository", "must say where the commit is fetched from"),
        ({"code_repository": ADDRESS}, "code_commit", "must say which commit"),
        (
            {"code_repository": ADDRESS, "code_commit": "main"},
            "code_commit",
            "must be a whole commit",
        ),
        (
            {"code_repository": "git@a.org:b/c.git", "code_commit": COMMIT},
            "code_repository",
            "is written as an address: ssh://git@a.org/b/c.git",
        ),
        (
            {"code_repository": ADDRESS, "code_commit": COMMIT, "script_folder": "/benchmarks"},
            "script_folder",
            "is a path within the code",
        ),
        ({"code_archive": "1" * 64}, "code_archive", "No archive with this sha256 is on this site"),
        ({"code_archive": "x"}, "code_archive", "must be the sha256"),
        ({"code_file": "no archive"}, "code_file", ""),
        ({"code_file": ["a.py"]}, "code_file", "There is no tf_cnn_benchmarks.py in the archive"),
        (
            {"code_file": ["a/tf_cnn_benchmarks.py", "tf_cnn_benchmarks.py"]},
            "script_folder",
            "has to be chosen: the archive has tf_cnn_benchmarks.py in a, its top",
        ),
        (
            {"code_file": ["a/tf_cnn_benchmarks.py"], "script_folder": "b"},
            "script_folder",
            "is not b: the archive has tf_cnn_benchmarks.py in a",
        ),
        (
            {
                "code_file": ["tf_cnn_benchmarks.py"],
                "code_repository": ADDRESS,
                "code_commit": COMMIT,
            },
            "code_archive",
            "cannot be there beside a git repository",
        ),
    ],
)
def test_what_is_amiss_is_named_at_its_field_and_nothing_is_made(
    fields: dict[str, Any], name: str, problem: str, as_owner: Client, by_ssh: Site
) -> None:
    file = fields.get("code_file")
    if file == "no archive":
        fields = {"code_file": SimpleUploadedFile("x", b"no archive")}
    elif file:
        fields = fields | {"code_file": make_archive(*file)}
    errors = use(as_owner, by_ssh, **fields).context["form"].errors
    assert problem in str(errors[name]), errors
    assert not Experiment.objects.exists()
    assert not CodeCopy.objects.exists()


def test_an_archive_that_was_sent_need_not_be_sent_again(as_owner: Client, by_ssh: Site) -> None:
    file = make_archive("a/tf_cnn_benchmarks.py", "b/tf_cnn_benchmarks.py")
    answer = use(as_owner, by_ssh, code_file=file)
    assert FOLDED not in answer.content.decode()  # it names what has been sent
    form = answer.context["form"]
    sha256 = form["code_archive"].value()
    assert sha256 == CodeArchive.objects.get().sha256
    use(as_owner, by_ssh, code_archive=sha256, script_folder="b")
    assert find_script() == "{code}/b/tf_cnn_benchmarks.py"


def test_a_check_sum_opens_no_archive_of_a_workload_that_one_may_not_view(
    client: Client, as_owner: Client, by_ssh: Site, people: People
) -> None:
    archive = keep_archive([make_archive("secret/tf_cnn_benchmarks.py").read()], "theirs.tar")
    Workload.objects.create(
        name="theirs",
        kind="command",
        parameters={"argv": ["x"], "code_archive": archive.sha256},
        owner=UserFactory(),
        visibility="private",
    )
    for more in ({}, {"baseline": ""}, {"script_folder": "elsewhere"}):
        form = use(as_owner, by_ssh, code_archive=archive.sha256, **more).context["form"]
        assert "No archive with this sha256 is on this site" in str(form.errors["code_archive"])
        assert "secret" not in str(form.errors)  # nor is told where the script lies
    stated = fill_in(by_ssh, code_archive=archive.sha256)
    refused = send(client, people.owner, f"presets/{KEY}/use", stated, 422)
    assert list_fields(refused) == ["code_archive"]
    assert not CodeCopy.objects.exists()
    use(as_owner, by_ssh, code_file=make_archive("secret/tf_cnn_benchmarks.py"))
    assert CodeCopy.objects.get().archive == archive  # who has it may send it


def test_by_the_api(client: Client, by_ssh: Site, people: People) -> None:
    owner = people.owner
    assert get(client, f"presets/{KEY}", log_in(owner))["script"] == "tf_cnn_benchmarks.py"
    file = {"base64": base64.b64encode(make_tf_cnn_tar()).decode()}
    made = send(client, owner, f"presets/{KEY}/use", fill_in(by_ssh, code_file=file), 201)
    assert find_script() == IN_ARCHIVE
    assert CodeCopy.objects.get().state == "staging"
    assert not any("Its code is not put" in line for line in made["warnings"])
    for wrong, field in (
        ({"code_file": {"text": "no archive"}}, "code_file"),
        ({"code_repository": ADDRESS}, "code_commit"),
        ({"script_folder": "x"}, "script_folder"),
    ):
        refused = send(client, owner, f"presets/{KEY}/use", fill_in(by_ssh, **wrong), 422)
        assert field in list_fields(refused)
    other = fill_in(by_ssh, code_repository=ADDRESS, code_commit=COMMIT)
    refused = send(client, owner, "presets/numpy-on-tuned-blas/use", other, 422)
    assert list_fields(refused) == ["code_repository", "code_commit"]


def test_only_presets_that_start_a_script_ask_for_it(as_owner: Client, site: Site) -> None:
    for key, preset in PRESETS.items():
        form = as_owner.get(reverse("preset", args=[key])).context["form"]
        assert ("script_folder" in form.fields) == bool(preset.script), key
        assert bool(preset.script) == (key == KEY)
