"""Builds of Dockerfiles, definition files and Debian packages: requests, steps and outcomes."""

from __future__ import annotations

import pytest

from experiments.execution.operations import NotPossible, make_operation_spec
from experiments.images import architectures
from experiments.images.staging import NotDone
from experiments.models import Cluster, Image, ImageImport, Operation, Role, SentFile
from experiments.software import build_files, building, recipes
from runners.schedulers import Direct
from runners.scripts import render
from tests.experiments.software.test_building import LOCK, base, built, cluster
from tests.factories import ImageFactory, RuntimeFactory, UserFactory

__all__ = ["base", "cluster"]  # fixtures

pytestmark = pytest.mark.django_db

Kind = ImageImport.Kind
NOTE = {"note.txt": b"\xff\xfe a note"}


@pytest.fixture(autouse=True)
def podman(cluster: Cluster) -> None:
    RuntimeFactory(cluster=cluster, kind="podman", executable="/opt/podman")


def write_file(kind: str, base: Image) -> str:
    if kind == Kind.DOCKERFILE:
        return f"FROM debian@{base.digest}\nCOPY note.txt /opt/\n"
    return f"Bootstrap: docker\nFrom: debian@{base.digest}\n%files\n    note.txt /opt/\n"


def ask(kind: str, base: Image, cluster: Cluster, minutes: int = 60) -> ImageImport:
    text = write_file(kind, base)
    return build_files.request_file_build(
        kind, text, NOTE, cluster, cluster.owner, title="tools", minutes=minutes
    )


@pytest.mark.parametrize("kind", [Kind.DOCKERFILE, Kind.DEFINITION])
@pytest.mark.parametrize("of", ["oci", "rootfs", "sif"])
def test_a_file_becomes_steps_that_name_its_base_by_a_path(
    kind: str, of: str, base: Image, cluster: Cluster
) -> None:
    base.kind = of
    base.save()
    operation = ask(kind, base, cluster).operations.get()
    spec = make_operation_spec(operation)
    files = dict(spec.files)
    assert files["sent-note.txt"] == NOTE["note.txt"]
    assert base.digest.encode() not in files["build.file"]
    script = render(spec, Direct())
    in_file = files["build.file"].decode()
    assert "/scratch/images/base.archive" in script + in_file
    assert ("/opt/podman" if kind == Kind.DOCKERFILE else "/opt/apptainer") in script
    doing = [step.doing for step in spec.steps]
    assert doing[0] == "Clearing what was left"
    assert doing[-3:] == ["Reading what is in it", "Moving it into its place", "Clearing up"]
    where = {"oci": "oci-archive", "rootfs": "localimage", "sif": "localimage"}
    if kind == Kind.DEFINITION:
        assert f"Bootstrap: {where[of]}\n".encode() in files["build.file"]


@pytest.mark.parametrize("kind", [Kind.DOCKERFILE, Kind.DEFINITION])
def test_what_was_built_keeps_the_file_and_who_asked(
    kind: str, base: Image, cluster: Cluster
) -> None:
    base.architecture = "arm64"
    base.save()
    row = ask(kind, base, cluster)
    image = built(row.operations.get())
    row.refresh_from_db()
    assert (row.state, row.image, image.owner) == ("done", image, cluster.owner)
    assert image.kind == ("oci" if kind == Kind.DOCKERFILE else "sif")
    assert image.architecture == "arm64"
    assert write_file(kind, base) in image.recipe
    assert f"built on {cluster} for {cluster.owner}" in image.recipe
    (sent,) = SentFile.objects.all()
    assert f"sent along: note.txt {sent.sha256}" in image.recipe
    assert image.labels["sha256 of the file"] == recipes.compute_sha256(row.build_file)
    assert recipes.lock_of(image) == ""


def test_debian_packages_come_before_the_lock_and_keep_their_versions(
    base: Image, cluster: Cluster
) -> None:
    base.facts = {"tree": "x", "pythons": []}
    base.save()
    row = building.request_build(
        base, LOCK, cluster, cluster.owner, title="numpy", packages="python3\nhello"
    )
    spec = make_operation_spec(row.operations.get())
    doing = [step.doing for step in spec.steps]
    assert doing.index("Installing the Debian packages") < doing.index("Unpacking the base")
    script = render(spec, Direct())
    assert "/usr/bin/python3" in script, "the packages bring it"
    assert b'"python3", "hello"]' in dict(spec.files)["build.file"]
    survey = {
        "tree": f"sha256:{'12' * 32}",
        "packages": {"system": {"hello": "2.10-5", "python3": "3.13.5-1", "libc6": "2.41"}},
    }
    image = built(row.operations.get(), survey=survey)
    assert "Debian packages: python3 hello\n" in image.recipe
    assert "Debian packages as installed: python3=3.13.5-1 hello=2.10-5\n" in image.recipe
    assert recipes.lock_of(image) == LOCK


def test_debian_packages_alone_can_go_on_top_of_a_recipe(base: Image, cluster: Cluster) -> None:
    base.recipe = recipes.write_recipe(ImageFactory(), LOCK)
    base.save()
    row = building.request_build(base, "", cluster, cluster.owner, title="x", packages="hello")
    doing = [step.doing for step in make_operation_spec(row.operations.get()).steps]
    assert "Installing what the lock names" not in doing
    with pytest.raises(NotDone, match="itself built by a recipe"):
        building.request_build(base, LOCK, cluster, cluster.owner, title="x", packages="hello")


def test_what_cannot_be_built_is_refused_in_words(
    base: Image, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, owner = write_file(Kind.DOCKERFILE, base), cluster.owner

    def request(said: str, **more: object) -> None:
        values = {"text": text, "files": NOTE, "by": owner, "minutes": 5, **more}
        with pytest.raises(NotDone, match=said):
            build_files.request_file_build(
                Kind.DOCKERFILE,
                values["text"],
                values["files"],
                cluster,
                values["by"],
                title="x",
                minutes=values["minutes"],
            )

    request("names debian:13", text="FROM debian:13")
    request("no image with the digest", text=f"FROM a@sha256:{'0' * 64}")
    request("has a plain name", files={"../x": b""})
    request("1,000,000 are the most", files={"x": b"x" * 1_000_001})
    request("more than 4,000,000", files={f"x{n}": b"x" * 900_000 for n in range(5)})
    request("at most 20", files={f"x{n}": b"" for n in range(5000)})
    request("from 1 to 110 minutes", minutes=0)
    request("viewer", by=UserFactory(role=Role.VIEWER))
    base.architecture = "arm64"
    base.save()
    monkeypatch.setattr(architectures, "find_node_machines", lambda cluster: {"gpu": "x86_64"})
    request("is for arm64; the nodes of .* are amd64")
    monkeypatch.setattr(architectures, "find_node_machines", lambda cluster: {})
    cluster.runtimes.filter(kind="podman").delete()
    request("has no Podman")
    assert not ImageImport.objects.exists()


def test_a_builder_that_went_away_is_named(base: Image, cluster: Cluster) -> None:
    operation = ask(Kind.DOCKERFILE, base, cluster).operations.get()
    cluster.runtimes.filter(kind="podman").delete()
    with pytest.raises(NotPossible, match="has no Podman"):
        make_operation_spec(Operation.objects.get(pk=operation.pk))


def test_a_build_is_ended_before_its_job(base: Image, cluster: Cluster) -> None:
    def read_seconds(minutes: int) -> int:
        operation = ask(Kind.DOCKERFILE, base, cluster, minutes).operations.get()
        (argv,) = (
            step.argv
            for step in make_operation_spec(operation).steps
            if step.doing == "Building the Dockerfile"
        )
        return int(argv[argv.index("--seconds") + 1])

    assert read_seconds(5) == 300
    assert read_seconds(110) == 6600
