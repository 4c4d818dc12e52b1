"""Code of a workload by the form, on its page, in files and by the API."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from experiments.code_copies.archives import keep_archive
from experiments.images import store
from experiments.models import CodeArchive, CodeCopy, Operation, SentFile, User, Workload
from runners.workloads import WORKLOADS, ParameterError
from runners.workloads.code_parameters import explain_no_address
from tests.dashboard.api.requests_by_token import get, log_in
from tests.dashboard.api.test_catalogue_changes import write
from tests.factories import ClusterFactory, CodeCopyFactory, CredentialFactory, UserFactory
from tests.runners.code_archives import make_tar, make_tf_cnn_tar, name_member

pytestmark = pytest.mark.django_db

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FORM = {
    "name": "benchmark",
    "read": "nothing",
    "time_limit_seconds": "60",
    "visibility": "private",
    "recorded": "inside",
    "processes": "one",
    "metric-TOTAL_FORMS": "0",
    "metric-INITIAL_FORMS": "0",
}
SCRIPT = "{code}/benchmarks/scripts/tf_cnn_benchmarks/tf_cnn_benchmarks.py"


@pytest.fixture(autouse=True)
def _own_store(settings: Any, tmp_path: Path) -> None:
    settings.IMAGE_STORE = str(tmp_path / "store")


@pytest.fixture
def researcher() -> User:
    made: User = UserFactory(role="researcher")
    return made


@pytest.fixture
def client(researcher: User) -> Client:
    made = Client()
    made.force_login(researcher)
    return made


def post(client: Client, **fields: Any) -> Any:
    return client.post(f"{reverse('workload_new')}?kind=command", FORM | fields)


def send(name: str = "tf.tar.gz", content: bytes = b"") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, content or make_tf_cnn_tar())


def test_an_archive_is_sent_by_the_form_and_shown_on_the_page(client: Client) -> None:
    argv = f"{{python}} {SCRIPT} --model=trivial"
    answer = post(client, argv=argv, code_file=send())
    assert answer.status_code == 302, answer.content.decode()
    row = Workload.objects.get()
    archive = CodeArchive.objects.get()
    assert row.parameters["code_archive"] == archive.sha256
    assert (archive.name, archive.files) == ("tf.tar.gz", 3)
    assert store.has(archive.sha256)
    page = client.get(answer["Location"]).content.decode()
    assert "tf.tar.gz" in page
    assert archive.sha256 in page
    assert "On no cluster yet" in page


def test_a_form_with_another_mistake_keeps_the_archive(client: Client) -> None:
    page = post(client, argv=f"{{python}} {SCRIPT}", code_file=send(), time_limit_seconds="0")
    sha256 = CodeArchive.objects.get().sha256
    assert f'value="{sha256}"' in page.content.decode()
    answer = post(client, argv=f"{{python}} {SCRIPT}", code_archive=sha256)
    assert answer.status_code == 302, answer.content.decode()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"no archive", "This is neither a tar, a tar.gz, a tar.xz nor a zip."),
        (make_tar((name_member("../x"), b"1")), "../x has &#x27;..&#x27; in it."),
    ],
)
def test_an_archive_that_is_not_taken_is_named(
    client: Client, content: bytes, problem: str
) -> None:
    page = post(client, argv="{python} {code}/x", code_file=send("x.tar", content))
    assert problem in page.content.decode()
    assert not CodeArchive.objects.exists()
    assert not list(store.get_folder().iterdir())


def test_a_path_that_the_archive_does_not_have_is_named(client: Client) -> None:
    page = post(client, argv="{python} {code}/tf_cnn_benchmarks.py", code_file=send())
    text = page.content.decode()
    assert "names {code}/tf_cnn_benchmarks.py, which the archive does not have; there is" in text
    assert "benchmarks/scripts/tf_cnn_benchmarks/tf_cnn_benchmarks.py" in text


def test_a_check_sum_opens_no_archive_of_a_workload_that_one_may_not_view(client: Client) -> None:
    content = make_tf_cnn_tar()  # each has its own check sum, by the clock
    owner = UserFactory(role="researcher")
    theirs = Client()
    theirs.force_login(owner)
    argv = f"{{python}} {SCRIPT}"
    assert post(theirs, argv=argv, code_file=send(content=content)).status_code == 302
    sha256 = CodeArchive.objects.get().sha256
    closed = "No archive with this sha256 is on this site"
    page = post(client, argv="{python} {code}/x", code_archive=sha256).content.decode()
    assert closed in page
    assert "tf_cnn_benchmarks.py" not in page  # nor is told what is in it
    assert post(client, argv=argv, code_file=send(content=content), name="mine").status_code == 302
    assert post(client, argv=argv, code_archive=sha256, name="again").status_code == 302
    Workload.objects.exclude(owner=owner).delete()
    Workload.objects.update(visibility="members")
    assert post(client, argv=argv, code_archive=sha256, name="seen").status_code == 302


def test_by_the_api_a_check_sum_opens_nothing_either(client: Client, researcher: User) -> None:
    archive = keep_archive([make_tf_cnn_tar()], "tf.tar.gz")
    file = SentFile.objects.keep(b"a secret")
    parameters = {"argv": ["x"], "code_archive": archive.sha256, "files": {"x": file.sha256}}
    Workload.objects.create(
        name="w", kind="command", parameters=parameters, owner=UserFactory(), visibility="private"
    )
    for own in ({"code_archive": archive.sha256}, {"files": {"x": file.sha256}}):
        named = {"argv": ["{python}", "x"], "read": "nothing", **own}
        body = {"name": "mine", "kind": "command", "parameters": named}
        refused = write(client, researcher, "post", "workloads", body, 422)
        assert "on this site" in str(refused) or "sent to this site before" in str(refused)


def test_a_check_sum_opens_no_file_of_a_workload_that_one_may_not_view(
    client: Client, researcher: User
) -> None:
    file = SentFile.objects.keep(b"a secret")
    parameters = {"argv": ["x"], "files": {"x": file.sha256}}
    theirs = Workload.objects.create(
        name="w", kind="command", parameters=parameters, owner=UserFactory(), visibility="private"
    )
    post(client, argv="{python} x", kept=f"{file.sha256} x", name="guessed")
    assert Workload.objects.exclude(pk=theirs.pk).get().parameters["files"] == {}
    shown = post(client, argv="", uploads=SimpleUploadedFile("x", b"a secret"))
    key = re.search(r'name="shown" value="(\S+)"', shown.content.decode())
    assert key
    again = {"argv": "{python} x", "kept": f"{file.sha256} x", "shown": key[1]}
    post(client, **again, name="sent")
    assert Workload.objects.get(name="sent").parameters["files"] == {"x": file.sha256}
    Workload.objects.get(name="sent").delete()
    other = Client()
    other.force_login(UserFactory(role="researcher"))
    post(other, **again, name="stolen")
    assert Workload.objects.get(name="stolen").parameters["files"] == {}


def test_an_archive_of_which_only_the_check_sum_is_known_is_no_archive(client: Client) -> None:
    folded = '<details class="text">\n  <summary>An archive that was sent before</summary>'
    shown = client.get(reverse("workload_new") + "?kind=command").content.decode()
    assert folded in shown
    assert "sha256 of an archive that is here already" in shown
    page = post(client, argv="{python} {code}/x", code_archive="1" * 64)
    assert folded not in page.content.decode()
    assert "No archive with this sha256 is on this site" in page.content.decode()


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("ext::sh -c 'touch /tmp/x'", "ext is not fetched from"),
        ("--upload-pack=touch", "is https://HOST/PATH"),
        ("https://-host/x", "is https://HOST/PATH"),
        ("ssh://-oProxyCommand=x/y", "is https://HOST/PATH"),
        ("ssh://host/-x", "is https://HOST/PATH"),
        ("http://host/x", "http is not fetched from"),
        ("git://host/x", "git is not fetched from"),
        ("https://me:secret@host/x", "names no user and no password"),
        ("https://token@host/x", "names no user and no password"),
        ("ssh://me:secret@host/x", "is https://HOST/PATH"),
        ("git@host:group/x.git", "is written as an address: ssh://git@host/group/x.git"),
        ("file://host/x", "is https://HOST/PATH"),
        ("file:///a/../b", "is https://HOST/PATH"),
        ("https://host/x y", "is https://HOST/PATH"),
        ("https://host/x\ny", "is https://HOST/PATH"),
        ("https://host/x?y", "is https://HOST/PATH"),
        ("/a/b", "is https://HOST/PATH"),
        ("https://host/" + "x" * 300, "is at most 300 characters long"),
    ],
)
def test_git_is_given_no_other_address(address: str, problem: str) -> None:
    assert problem in explain_no_address(address)


@pytest.mark.parametrize(
    "address",
    [
        "https://github.com/tensorflow/benchmarks",
        "https://git.example.org:8443/~me/x.git/",
        "ssh://git@host/group/x.git",
        "ssh://host:2222/x",
        "file:///srv/git/x.git",
    ],
)
def test_git_is_given_these(address: str) -> None:
    assert explain_no_address(address) == ""


@pytest.mark.parametrize(
    ("parameters", "name", "problem"),
    [
        ({"code_commit": "main"}, "code_commit", "a whole commit, 40 hexadecimal digits"),
        ({"code_commit": COMMIT[:12]}, "code_commit", "a whole commit"),
        ({"code_commit": COMMIT}, "code_repository", "must say where"),
        ({"code_repository": "https://a.org/b"}, "code_commit", "must say which commit"),
        ({"argv": ["{code}/x"]}, "argv", "has {code} in it: name an archive"),
        (
            {
                "code_archive": "1" * 64,
                "code_repository": "https://a.org/b",
                "code_commit": COMMIT,
            },
            "code_archive",
            "beside a git repository",
        ),
    ],
)
def test_code_that_is_not_named_wholly_is_refused(
    parameters: dict[str, Any], name: str, problem: str
) -> None:
    with pytest.raises(ParameterError) as refusal:
        WORKLOADS["command"].clean({"argv": ["x"], "read": "nothing"} | parameters)
    assert problem in refusal.value.messages[name]


def test_code_is_put_on_a_cluster_checked_and_removed_by_buttons(
    client: Client, researcher: User
) -> None:
    key = CredentialFactory(owner=researcher)
    cluster = ClusterFactory(owner=researcher, credential=key, transport="ssh", host="a.example")
    post(client, argv="{code}/x", code_repository="https://a.org/b", code_commit=COMMIT)
    row = Workload.objects.get()
    page = reverse("workload", args=[row.pk])
    assert "Put it on the cluster" in client.get(page).content.decode()
    client.post(reverse("code_copy_put", args=[row.pk]), {"cluster": cluster.pk})
    copy = CodeCopy.objects.get()
    assert (copy.state, copy.commit, copy.repository) == ("staging", COMMIT, "https://a.org/b")
    assert Operation.objects.get().kind == "fetch_code"
    assert "Cancel" in client.get(page).content.decode()
    text = client.post(reverse("code_copy_remove", args=[copy.pk]), follow=True).content.decode()
    assert "is being worked on already" in text
    Operation.objects.update(state="done")
    left_out = {"submodules": ["third/party"], "pointers": ["big"]}
    CodeCopy.objects.update(state="ready", digest="sha256:" + "a" * 64, files=2, left_out=left_out)
    text = client.get(page).content.decode()
    assert "third/party" in text
    assert "Submodules, not fetched" in text
    client.post(reverse("code_copy_check", args=[copy.pk]))
    assert Operation.objects.latest("pk").kind == "check_code"
    Operation.objects.update(state="done")
    client.post(reverse("code_copy_remove", args=[copy.pk]))
    assert Operation.objects.latest("pk").kind == "drop_code"
    copy.refresh_from_db()
    assert copy.state == "removing"


def test_copies_of_code_are_seen_by_those_who_see_a_workload_with_it(researcher: User) -> None:
    copy = CodeCopyFactory(cluster__visibility="public")
    assert not CodeCopy.objects.visible_to(researcher).exists()
    parameters = {"argv": ["x"], "code_commit": copy.commit, "code_repository": "https://a.org/b"}
    Workload.objects.create(
        name="w", kind="command", parameters=parameters, owner=copy.owner, visibility="members"
    )
    assert list(CodeCopy.objects.visible_to(researcher)) == [copy]


def test_by_the_api(client: Client, researcher: User) -> None:
    key = CredentialFactory(owner=researcher)
    cluster = ClusterFactory(owner=researcher, credential=key, transport="ssh", host="a.example")
    file = {"base64": base64.b64encode(make_tf_cnn_tar()).decode()}
    body = {
        "name": "tf",
        "kind": "command",
        "parameters": {"argv": ["{python}", SCRIPT], "read": "nothing"},
        "code_file": file,
    }
    made = write(client, researcher, "post", "workloads", body, 201)
    assert made["parameters"]["code_archive"] == CodeArchive.objects.get().sha256
    copy = write(
        client, researcher, "post", f"workloads/{made['id']}/code", {"cluster": cluster.pk}, 201
    )
    assert (copy["state"], copy["archive"]) == ("staging", CodeArchive.objects.get().sha256)
    at = f"code-copies/{copy['id']}"
    assert get(client, at, log_in(researcher))["path"].endswith(copy["archive"])
    write(client, researcher, "post", f"{at}/check", None, 409)
    Operation.objects.update(state="done")
    operation = write(client, researcher, "delete", at, None, 202)
    assert (operation["kind"], operation["code_copy"]) == ("drop_code", copy["id"])
    bad = body | {"name": "bad", "code_file": {"text": "no archive"}}
    refused = write(client, researcher, "post", "workloads", bad, 422)
    assert refused["problems"][0]["field"] == "code_file"


def test_an_archive_of_more_than_64_mb_is_refused(client: Client, monkeypatch: Any) -> None:
    monkeypatch.setattr("runners.payload.code_archive.LARGEST_ARCHIVE", 1000)
    content = make_tar((name_member("x"), io.BytesIO(b"1" * 2000).getvalue()))
    text = post(client, argv="{code}/x", code_file=send("x.tar", content)).content.decode()
    assert "The archive has more than 0 MB" in text


def test_site_administrators_see_copies_that_no_workload_names(researcher: User) -> None:
    copy = CodeCopyFactory()
    administrator = UserFactory(role="site_administrator")
    assert list(CodeCopy.objects.visible_to(administrator)) == [copy]
    assert not CodeCopy.objects.visible_to(researcher).exists()


def test_unused_code_is_listed_with_its_size_and_removed_on_the_page_of_its_cluster(
    client: Client, researcher: User
) -> None:
    owner = UserFactory(role="cluster_administrator")
    key = CredentialFactory(owner=owner)
    cluster = ClusterFactory(owner=owner, credential=key, transport="ssh", host="a.example")
    ready = {"state": "ready", "digest": "sha256:" + "a" * 64, "files": 2}
    unused = CodeCopyFactory(cluster=cluster, commit="b" * 40, size_bytes=3 * 10**6, **ready)
    named = CodeCopyFactory(cluster=cluster, commit=COMMIT, size_bytes=5 * 10**6, **ready)
    parameters = {"argv": ["x"], "code_commit": COMMIT, "code_repository": "https://a.org/b"}
    Workload.objects.create(name="w", kind="command", parameters=parameters, owner=named.owner)
    page = reverse("cluster", args=[cluster.pk])

    assert "Code that no workload names" not in client.get(page).content.decode()
    client.force_login(owner)
    text = client.get(page).content.decode()
    assert "1 copy, 3.00 MB together" in text
    assert unused.path in text
    assert named.path not in text

    answer = client.post(reverse("code_copy_remove", args=[unused.pk]))
    assert answer["Location"] == page
    operation = Operation.objects.get()
    assert (operation.kind, operation.code_copy) == ("drop_code", unused)
    assert "Code that no workload names" not in client.get(page).content.decode()
    client.force_login(researcher)
    assert client.post(reverse("code_copy_remove", args=[unused.pk])).status_code == 404


def test_naming_a_commit_shows_nothing_on_clusters_that_one_may_not_use(
    client: Client, researcher: User
) -> None:
    """Anybody can name a commit: only their jobs' account decides who may read what it fetched."""
    private = CodeCopyFactory(commit=COMMIT, cluster__users=[])
    private.left_out = {"submodules": ["secret/part"]}
    private.save()
    post(client, argv="{code}/x", code_repository="https://elsewhere.org/b", code_commit=COMMIT)
    page = reverse("workload", args=[Workload.objects.get().pk])
    assert not CodeCopy.objects.visible_to(researcher).exists()
    text = client.get(page).content.decode()
    assert "secret/part" not in text
    assert private.digest not in text
    assert client.post(reverse("code_copy_check", args=[private.pk])).status_code == 404

    private.cluster.users.add(researcher)
    assert list(CodeCopy.objects.visible_to(researcher)) == [private]
    assert "secret/part" in client.get(page).content.decode()


def test_pages_of_operations_leave_out_the_lists_of_files(client: Client, researcher: User) -> None:
    copies = [
        CodeCopyFactory(commit=commit * 40, owner=researcher, paths=["a-path-of-its-code"] * 3)
        for commit in "ab"
    ]
    rows = [
        Operation.objects.create(
            kind="check_code", cluster=copies[0].cluster, code_copy=copy, owner=researcher
        )
        for copy in copies
    ]
    for name, pk in (("operation", rows[0].pk), ("cluster", copies[0].cluster_id)):
        with CaptureQueriesContext(connection) as captured:
            page = client.get(reverse(name, args=[pk])).content.decode()
        assert copies[0].source.label in page
        joined = 'JOIN "experiments_codecopy"'
        reading = [row["sql"] for row in captured if joined in row["sql"]]
        assert reading, name
        assert not [sql for sql in reading if '"experiments_codecopy"."paths"' in sql]
        alone = 'FROM "experiments_codecopy" WHERE "experiments_codecopy"."id" ='
        assert not [row for row in captured if alone in row["sql"]], name


def test_lists_of_copies_leave_out_the_lists_of_their_files(
    client: Client, researcher: User, django_assert_max_num_queries: Any
) -> None:
    copy = CodeCopyFactory(commit=COMMIT, owner=researcher, paths=["a-path-of-its-code"] * 3)
    Operation.objects.create(
        kind="check_code", cluster=copy.cluster, code_copy=copy, owner=researcher
    )
    post(client, argv="{code}/x", code_repository="https://elsewhere.org/b", code_commit=COMMIT)
    page = reverse("workload", args=[Workload.objects.get().pk])
    with django_assert_max_num_queries(60) as asked:
        assert copy.path in client.get(page).content.decode()
        assert get(client, "code-copies", log_in(researcher))["items"]
        assert get(client, "operations", log_in(researcher))["items"]
    statements = [row["sql"] for row in asked if '"experiments_codecopy"."digest"' in row["sql"]]
    assert statements
    assert not [sql for sql in statements if '"experiments_codecopy"."paths"' in sql]
