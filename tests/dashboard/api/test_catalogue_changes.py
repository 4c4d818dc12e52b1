"""Environments, images and data sets by the API: made, changed and deleted as on their pages."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from experiments.models import (
    AnsweredRequest,
    AuditEntry,
    DataCopy,
    DataSet,
    Environment,
    Image,
    ImageImport,
    Operation,
    Role,
    StagedImage,
    User,
    Waiver,
)
from experiments.software import inspections
from tests.dashboard.api.requests_by_token import get, log_in, send
from tests.factories import (
    ClusterFactory,
    ContainerFactory,
    CredentialFactory,
    DataCopyFactory,
    DataSetFactory,
    EnvironmentFactory,
    ExperimentFactory,
    ImageFactory,
    LaunchedFactory,
    PartitionFactory,
    RuntimeFactory,
    StagedImageFactory,
    UserFactory,
)

pytestmark = pytest.mark.django_db
REFERENCE = "docker://docker.io/library/python:3.12-slim"


@pytest.fixture
def researcher() -> User:
    user: User = UserFactory(role=Role.RESEARCHER)
    return user


@pytest.fixture
def cluster(researcher: User) -> Any:
    """Return a cluster whose key the researcher may use."""
    key = CredentialFactory()
    key.users.add(researcher)
    row = ClusterFactory(host="login.example", transport="ssh", credential=key)
    PartitionFactory(cluster=row)
    return row


def write(client: Client, user: User, method: str, path: str, body: Any, status: int) -> Any:
    return send(client, method, path, log_in(user, "catalogue"), body, status)


def test_an_environment_is_made_with_what_the_page_would_suggest(
    client: Client, researcher: User, cluster: Any
) -> None:
    runtime = RuntimeFactory(cluster=cluster, kind="apptainer")
    staged = StagedImageFactory(
        cluster=cluster,
        image=ImageFactory(facts={"pythons": [{"path": "opt/bin/python", "version": "3.12"}]}),
        format="sif",
        state=StagedImage.State.READY,
    )
    bare = write(client, researcher, "post", "environments", {"cluster": cluster.pk}, 201)
    assert (bare["name"], bare["runtime"]) == ("bare metal", "bare_metal")
    body: dict[str, Any] = {
        "cluster": cluster.pk,
        "runtime": "apptainer",
        "staged_image": staged.pk,
        "binds": ["/data", "/scratch:/tmp"],
        "variables": {"OMP_NUM_THREADS": "4", "EMPTY": ""},
    }
    made = write(client, researcher, "post", "environments", body, 201)
    assert (made["runtime_id"], made["python"]) == (runtime.pk, "/opt/bin/python")
    assert (made["binds"], made["variables"]) == (body["binds"], body["variables"])
    path = f"environments/{made['id']}"
    change = {"name": "in a container", "variables": {}, "visibility": "private"}
    changed = write(client, researcher, "patch", path, change, 200)
    assert changed == made | change
    assert write(client, researcher, "patch", path, {}, 200) == changed
    write(client, researcher, "delete", path, None, 204)


@pytest.mark.parametrize(
    ("change", "field", "part"),
    [
        ({"runtime": "podman"}, "runtime", "There are: apptainer"),
        ({"runtime": 999}, "runtime", "choice"),
        ({"staged_image": 999}, "staged_image", "not there yet"),
        ({"mode": "F9"}, "mode", "no mode"),
        ({"setup_lines": "module load python"}, "setup_lines", "those who may change it"),
        ({"binds": ["/a\n/b"]}, "", "one line"),
        ({"variables": {"A=B": "c"}}, "", "has no ="),
        ({"binds": ["relative"]}, "binds", "relative"),
        ({"cluster": 999}, "cluster", "choice"),
        ({"rutime": 1}, "", "Did you mean “runtime”"),
    ],
)
def test_what_is_no_environment(
    client: Client, researcher: User, cluster: Any, change: Any, field: str, part: str
) -> None:
    RuntimeFactory(cluster=cluster, kind="apptainer")
    body = {"cluster": cluster.pk, "name": "x"} | change
    problems = write(client, researcher, "post", "environments", body, 422)["problems"]
    assert any(part in row["message"] for row in problems), problems
    assert not field or field in {row["field"] for row in problems}
    assert not Environment.objects.exists()


def test_an_environment_of_a_hidden_cluster_or_of_an_import(
    client: Client, researcher: User, cluster: Any
) -> None:
    hidden = ClusterFactory(visibility="private")
    write(client, researcher, "post", "environments", {"cluster": hidden.pk}, 422)
    imported = EnvironmentFactory(owner=researcher, cluster=cluster, recorded_tool="udocker")
    path = f"environments/{imported.pk}"
    answer = write(client, researcher, "patch", path, {"name": "x"}, 409)
    assert "imported" in answer["detail"]
    LaunchedFactory(environments=[imported], baseline=imported, cluster=cluster)
    write(client, researcher, "delete", path, None, 409)


def test_an_inspection_is_asked_for_once(client: Client, researcher: User, cluster: Any) -> None:
    row = EnvironmentFactory(cluster=cluster)
    made = [
        write(client, researcher, "post", f"environments/{row.pk}/inspect", None, 202)
        for _ in range(2)
    ]
    assert made[0]["id"] == made[1]["id"]
    operation = get(client, f"operations/{made[0]['id']}", log_in(researcher))
    assert (operation["environment"], operation["is_over"]) == (row.pk, False)
    path = f"operations/{made[0]['id']}/cancel"
    write(client, researcher, "post", path, None, 200)
    assert Operation.objects.exclude(cancel_requested_at=None).count() == 1
    write(client, UserFactory(), "post", path, None, 403)


def test_differences_are_read_and_waived(client: Client) -> None:
    draft = ExperimentFactory()
    container = ContainerFactory(cluster=draft.cluster)
    draft.environments.set([draft.baseline, container])
    for row, version in ((draft.baseline, "2.1"), (container, "2.2")):
        facts = {"packages": {"numpy": version}}
        inspections.keep_inspection(row, facts, inspections.compute_fingerprint(row))
    headers, path = log_in(draft.owner, "experiments"), f"experiments/{draft.pk}/software"
    (report,) = get(client, path, headers)["environments"]
    names = [row["what"] for row in report["differences"]]
    assert names
    assert not any(row["waived"] for row in report["differences"])
    body = {"environment": container.pk, "what": names, "reason": " it is meant "}
    send(client, "post", f"{path}/waive", headers, body | {"reason": " "}, 422)
    send(client, "post", f"{path}/waive", headers, body | {"what": ["x"]}, 409)
    (report,) = send(client, "post", f"{path}/waive", headers, body, 200)["environments"]
    assert {row["waived"]["reason"] for row in report["differences"]} == {"it is meant"}
    only = {"environment": container.pk}
    send(client, "post", f"{path}/unwaive", headers, only, 200)
    assert not Waiver.objects.exists()
    send(client, "post", f"{path}/unwaive", headers, only, 409)
    send(client, "post", f"{path}/unwaive", headers, {"environment": 10**6}, 404)


def test_an_aa_test_is_drafted_once(client: Client, researcher: User, cluster: Any) -> None:
    row = EnvironmentFactory(cluster=cluster)
    headers, path = log_in(researcher, "experiments"), f"environments/{row.pk}/against-itself"
    made = [send(client, "post", path, headers, None, status) for status in (201, 200)]
    assert made[0]["id"] == made[1]["id"]
    send(client, "post", f"{path}?partition=999999", headers, None, 409)


def keep_archive(image: Image, cluster: Any) -> None:
    """Have an image lie on a cluster as an archive, of which others are made."""
    path = "/scratch/images/base.archive"
    StagedImage.objects.create(image=image, cluster=cluster, format="archive", path=path)


DOCKERFILE = "FROM debian@{digest}\nCOPY hello.txt /\n"


def test_images_are_built_of_packages_and_of_files(
    client: Client, researcher: User, cluster: Any
) -> None:
    RuntimeFactory(cluster=cluster, kind="podman", executable="podman")
    base = ImageFactory(visibility="members")
    keep_archive(base, cluster)
    where = {"title": "tools", "cluster": cluster.pk}
    recipe = where | {"base": base.pk, "packages": "hello\ng++"}
    write(client, researcher, "post", "images/recipes", recipe | {"packages": "-y"}, 422)
    made = write(client, researcher, "post", "images/recipes", recipe, 202)
    assert ImageImport.objects.get(pk=made["id"]).packages == "hello\ng++"
    by_conda = where | {"base": base.pk, "conda_file": "dependencies: [numpy]\n"}
    (problem,) = write(client, researcher, "post", "images/recipes", by_conda, 422)["problems"]
    assert (problem["field"], "channels:" in problem["message"]) == ("conda_file", True)
    text = DOCKERFILE.format(digest=base.digest)
    body = where | {"kind": "dockerfile", "text": text, "files": {"hello.txt": {"text": "é"}}}
    for wrong in ({"kind": "conda"}, {"minutes": 0}, {"files": {"../x": {"text": ""}}}):
        write(client, researcher, "post", "images/builds", body | wrong, 422)
    (problem,) = write(
        client, researcher, "post", "images/builds", body | {"text": "FROM debian"}, 422
    )["problems"]
    assert problem["field"] == "text"
    assert ImageImport.objects.count() == 1
    made = write(client, researcher, "post", "images/builds", body, 202)
    row = ImageImport.objects.get(pk=made["id"])
    assert (row.kind, row.title) == (ImageImport.Kind.DOCKERFILE, "tools")


def test_the_own_tree_of_an_image_is_asked_for_once(
    client: Client, researcher: User, cluster: Any
) -> None:
    image = ImageFactory(visibility="members", python_version="3.12.1")
    keep_archive(image, cluster)
    path = f"images/{image.pk}/tree"
    write(client, researcher, "post", path, {"cluster": 10**6}, 404)
    body = {"cluster": cluster.pk}
    made = [write(client, researcher, "post", path, body, 202)["id"] for _ in range(2)]
    assert made == [Operation.objects.get().pk] * 2


def test_whose_it_is_not_is_told_so_and_not_to_come_again(
    client: Client, researcher: User, cluster: Any
) -> None:
    """What one may not do is 403 by the API and on its page; 409 is what cannot be done now."""
    other = UserFactory(role=Role.RESEARCHER)
    copy = DataCopyFactory(
        cluster=cluster, owner=other, data_set=DataSetFactory(owner=other, visibility="members")
    )
    staged = StagedImageFactory(
        cluster=cluster, image=ImageFactory(owner=other, visibility="members")
    )
    operation = Operation.objects.create(
        kind=Operation.Kind.STAGE, cluster=cluster, staged_image=staged, owner=other
    )
    client.force_login(researcher)
    write(client, researcher, "delete", f"data-copies/{copy.pk}", None, 403)
    assert client.post(f"/data-copies/{copy.pk}/forget/").status_code == 403
    write(client, researcher, "post", f"operations/{operation.pk}/cancel", None, 403)
    assert client.post(f"/operations/{operation.pk}/cancel/").status_code == 403
    assert DataCopy.objects.filter(pk=copy.pk).exists()
    operation.refresh_from_db()
    assert operation.cancel_requested_at is None


def test_an_image_is_asked_for_by_its_reference(client: Client, researcher: User) -> None:
    secret = {"user_name": "me", "password": "sesame-open"}
    headers = log_in(researcher, "catalogue") | {"Idempotency-Key": "k"}
    body = {"reference": REFERENCE, "title": "Python"} | secret
    made = [send(client, "post", "images", headers, body, 202) for _ in range(2)]
    row = ImageImport.objects.get()
    assert made == [made[0]] * 2
    assert (made[0]["id"], made[0]["state"]) == (row.pk, "waiting")
    assert row.password.reveal() == "sesame-open"
    kept = AnsweredRequest.objects.get()
    assert b"sesame" not in bytes(kept.content)
    send(client, "post", "images", headers, body | {"password": "sesame-open!"}, 422)
    path = f"image-imports/{row.pk}"
    write(client, researcher, "delete", path, None, 409)
    assert write(client, researcher, "post", f"{path}/cancel", None, 200)["state"] == "failed"
    write(client, researcher, "post", f"{path}/cancel", None, 409)
    write(client, researcher, "delete", path, None, 204)
    get(client, path, log_in(researcher), 404)


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ({}, "comes from"),
        ({"reference": REFERENCE, "path": "/x"}, "comes from"),
        ({"reference": "docker://"}, ""),
        ({"reference": REFERENCE, "user_name": "me"}, "go together"),
        ({"reference": REFERENCE, "architecture": "z80"}, "choice"),
        ({"path": "/x.sif"}, "required"),
        ({"path": "x.sif", "cluster": "usable"}, "begins with a slash"),
        ({"path": "/x.sif", "cluster": 999}, "choice"),
        ({"reference": REFERENCE, "pasword": "sesame"}, "Did you mean “password”"),
        ({"reference": REFERENCE, "password": ["sesame"]}, "valid string"),
    ],
)
def test_what_is_no_image(
    client: Client, researcher: User, cluster: Any, body: Any, part: str
) -> None:
    if body.get("cluster") == "usable":
        body = body | {"cluster": cluster.pk}
    answer = write(client, researcher, "post", "images", body, 422)
    assert any(part in row["message"] for row in answer["problems"]), answer
    assert "sesame" not in str(answer)
    assert not ImageImport.objects.exists()


def test_labels_and_visibility_of_an_image(client: Client, researcher: User) -> None:
    odd = {"long": "two\nlines", "source": "https://x"}
    row = ImageFactory(owner=researcher, labels=odd)
    path, change = f"images/{row.pk}", {"labels": odd | {"purpose": "tests", "old": ""}}
    changed = write(client, researcher, "patch", path, change, 200)
    assert changed["labels"] == change["labels"]
    assert write(client, researcher, "patch", path, {"visibility": "private"}, 200) == (
        changed | {"visibility": "private"}
    )
    write(client, researcher, "patch", path, {"labels": {"a=b": ""}}, 422)
    write(client, researcher, "patch", path, {"labels": {"a": "x\ny"}}, 422)
    StagedImageFactory(image=row)
    write(client, researcher, "delete", path, None, 409)
    StagedImage.objects.update(state=StagedImage.State.REMOVED)
    write(client, researcher, "delete", path, None, 204)
    assert not Image.objects.exists()


def test_a_form_is_asked_for_verified_and_removed(
    client: Client, researcher: User, cluster: Any
) -> None:
    RuntimeFactory(cluster=cluster, kind="apptainer")
    row = ImageFactory(owner=researcher)
    StagedImageFactory(image=row, cluster=cluster, format="oci", made_here=True, path="/x.oci")
    path = f"images/{row.pk}/stage"
    wrong = {"cluster": cluster.pk, "format": "wim"}
    problems = write(client, researcher, "post", path, wrong, 422)["problems"]
    assert f"(cluster {cluster.pk})" in problems[0]["message"]
    ready = StagedImageFactory(image=row, cluster=cluster, format="sif", path="/x.sif")
    write(client, researcher, "post", path, wrong | {"format": "sif"}, 422)
    operation = write(client, researcher, "post", f"staged-images/{ready.pk}/verify", None, 202)
    assert (operation["staged_image"], operation["kind"]) == (ready.pk, "verify")
    answer = write(client, researcher, "post", f"staged-images/{ready.pk}/verify", None, 409)
    assert "wait for its end" in answer["detail"]
    answer = write(client, researcher, "post", f"staged-images/{ready.pk}/remove", None, 409)
    assert "by hand" in answer["detail"]


def test_a_data_set_and_its_copies(client: Client, researcher: User, cluster: Any) -> None:
    body = {"name": "cifar", "cluster": cluster.pk, "path": "/projects/cifar", "licence": "MIT"}
    made = write(client, researcher, "post", "data-sets", body, 201)
    copy = DataCopy.objects.get()
    assert get(client, f"data-copies/{copy.pk}", log_in(researcher))["data_set"] == made["id"]
    again = write(client, researcher, "post", "data-sets", body | {"name": "x"}, 409)
    assert "is registered already" in again["detail"]
    assert DataSet.objects.count() == 1
    relative = body | {"name": "x", "path": "projects"}
    write(client, researcher, "post", "data-sets", relative, 422)
    path = f"data-sets/{made['id']}"
    change = {"description": "pictures", "source": "https://example.org"}
    assert write(client, researcher, "patch", path, change, 200) == made | change
    other = {"cluster": cluster.pk, "path": "/other"}
    write(client, researcher, "post", f"{path}/copies", other, 422)
    at = f"data-copies/{copy.pk}"
    write(client, researcher, "post", f"{at}/read", None, 409)
    Operation.objects.update(state=Operation.State.DONE)
    assert "in full" in write(client, researcher, "post", f"{at}/check", None, 409)["detail"]
    write(client, researcher, "post", f"{at}/read", None, 202)
    write(client, researcher, "delete", at, None, 409)
    Operation.objects.update(state=Operation.State.DONE)
    write(client, researcher, "delete", at, None, 204)
    write(client, researcher, "delete", path, None, 204)
    assert AuditEntry.objects.filter(what="deleted", actor=researcher).count() == 2


def test_of_others_nothing_is_found(client: Client, researcher: User) -> None:
    copy = DataCopyFactory(data_set=DataSetFactory(visibility="private"))
    staged = StagedImageFactory(image=ImageFactory(visibility="private"))
    for method, path in (
        ("post", f"data-copies/{copy.pk}/check"),
        ("delete", f"data-copies/{copy.pk}"),
        ("post", f"staged-images/{staged.pk}/verify"),
        ("post", f"images/{staged.image_id}/stage"),
    ):
        body = {"cluster": 1, "format": "sif"} if path.endswith("stage") else None
        write(client, researcher, method, path, body, 404)
