"""An image's page: what is inside, where it is staged, whether that is the same, what is done."""

from __future__ import annotations

import html

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from experiments.images import store
from experiments.models import (
    AuditEntry,
    Environment,
    Image,
    Operation,
    Role,
    Run,
    StagedImage,
)
from runners.preflight.checks import Check
from tests.dashboard.conftest import People, Site, measured
from tests.factories import (
    NOON,
    AdvisoryFactory,
    CheckReportFactory,
    ContainerFactory,
    CredentialFactory,
    ImageFactory,
    OperationFactory,
    StagedImageFactory,
    UserFactory,
)

pytestmark = pytest.mark.django_db

TREE = "sha256:" + "a" * 64
OTHER = "sha256:" + "b" * 64
FACTS = {
    "tree": TREE,
    "files": 28123,
    "bytes": 1_234_000_000,
    "system": {"architecture": "x86_64", "libc": "glibc 2.36"},
    "pythons": [{"path": "usr/bin/python3.11", "version": "3.11.2", "packages": {"numpy": "2.4"}}],
    "packages": {
        "python": {"numpy": "2.4.6", "tensorflow": "2.21.0"},
        "system": {"libcudnn9": "9.5.1-1"},
        "conda": {},
    },
    "blas": {"openblas": "0.3.30"},
    "nccl": "2.27",
    "exclusions": [{"path": "etc/hosts", "reason": "runtimes bind the node's"}],
    "not_read": ["var/lib/rpm/Packages: only rpm itself reads this list"],
}


@pytest.fixture
def image(people: People) -> Image:
    made: Image = ImageFactory(
        reference="lab/training:2",
        owner=people.owner,
        tree=TREE,
        facts=FACTS,
        packages={"numpy": "2.4.6", "tensorflow": "2.21.0"},
        python_version="3.11.2",
        content_sha256="c" * 64,
        labels={"tare.lock.sha256": "d" * 64, "note": "two\nlines"},
    )
    return made


@pytest.fixture
def staged(image: Image, site: Site) -> StagedImage:
    made: StagedImage = StagedImageFactory(
        image=image, cluster=site.cluster, path="/images/it.sif", tree=TREE, made_here=True
    )
    return made


@pytest.fixture
def kept(image: Image) -> None:
    """The image's bytes are in the store."""
    store.get_path(image.content_sha256).write_bytes(b"content")


def page(client: Client, image: Image, query: str = "", **headers: str) -> str:
    answer = client.get(f"{image.get_absolute_url()}{query}", headers=headers)
    assert answer.status_code == 200
    return html.unescape(" ".join(answer.content.decode().split()))


def test_the_software_inventory_lists_the_image_s_packages(as_owner: Client, image: Image) -> None:
    shown = page(as_owner, image)
    for words in (
        image.digest,
        TREE,
        "amd64, glibc 2.36",
        "/usr/bin/python3.11: 3.11.2, 1 package<",
        "openblas 0.3.30",
        "2.27",
        "28,123, together 1.23 GB",
        "only rpm itself reads this list",
        "/etc/hosts</code> runtimes bind the node's",
        "its bytes, sha256",
    ):
        assert words in shown


@pytest.mark.parametrize(
    ("name", "ending", "words"),
    [("image_spdx", "spdx", '"SPDX-2.3"'), ("image_cyclonedx", "cdx", '"CycloneDX"')],
)
def test_the_software_is_exported_as_a_bill_of_materials(
    name: str, ending: str, words: str, as_owner: Client, image: Image
) -> None:
    address = reverse(name, args=[image.pk])
    assert address in page(as_owner, image)
    answer = as_owner.get(address)
    assert words in answer.content.decode()
    assert "libcudnn9" in answer.content.decode()
    file_name = f'attachment; filename="training-2-{image.short_digest}.{ending}.json"'
    assert answer["Content-Disposition"] == file_name
    Image.objects.update(facts={})
    assert as_owner.get(address).status_code == 404
    assert address not in page(as_owner, image)


def test_packages_are_searched_whoever_brought_them(as_owner: Client, image: Image) -> None:
    shown = page(as_owner, image, "?packages=cudnn+9.5", **{"HX-Request": "true"})
    assert shown.startswith("<section")
    assert "libcudnn9" in shown
    assert "numpy" not in shown.partition("<table")[2]
    assert "No package holds these words" in page(as_owner, image, "?packages=nothing")


@pytest.mark.parametrize(
    ("tree", "words"), [(TREE, "the same"), (OTHER, "different"), ("", "not inspected")]
)
def test_a_form_says_whether_its_files_are_the_images(
    tree: str, words: str, as_owner: Client, image: Image, staged: StagedImage
) -> None:
    StagedImage.objects.update(tree=tree, verified_at=NOON)
    shown = page(as_owner, image)
    assert words in shown.partition('class="staged"')[2].partition("</article>")[0]
    assert (OTHER in shown) == (tree == OTHER)


def test_staging_is_asked_for_by_a_click_and_awaited(
    as_owner: Client, people: People, image: Image, staged: StagedImage, site: Site, kept: None
) -> None:
    shown = page(as_owner, image)
    choices = shown.partition('name="where"')[2].partition("</select>")[0]
    assert '<optgroup label="lab">' in choices
    assert "sandbox" in choices
    assert "sif" not in choices  # it is there
    address = reverse("image_stage", args=[image.pk])
    sent = {"where": f"{site.cluster.pk} sandbox ", "partition": str(site.partition.pk)}
    assert as_owner.post(address, sent)["Location"] == image.get_absolute_url()
    operation = Operation.objects.get()
    assert (operation.kind, operation.partition, operation.owner) == (
        "stage",
        site.partition,
        people.owner,
    )
    shown = page(as_owner, image, **{"HX-Request": "true"})
    assert 'hx-trigger="every 2s"' in shown
    assert "Waits to be sent" in shown
    assert AuditEntry.objects.filter(kind="stagedimage").exists()


def test_what_cannot_be_staged_is_said_at_its_field(
    as_owner: Client, image: Image, site: Site
) -> None:
    address = reverse("image_stage", args=[image.pk])
    answer = as_owner.post(address, {"where": f"{site.cluster.pk} sandbox "})
    assert "Tare has no copy" in " ".join(answer.context["stage_form"].errors["where"])
    answer = as_owner.post(address, {"where": f"{site.cluster.pk} docker "})
    assert "where" in answer.context["stage_form"].errors
    assert not Operation.objects.exists()


def test_a_cluster_whose_key_is_not_theirs_is_not_offered(
    as_owner: Client, image: Image, site: Site, people: People
) -> None:
    site.cluster.transport = "ssh"
    site.cluster.credential = CredentialFactory(owner=people.admin)
    site.cluster.save()
    shown = page(as_owner, image)
    assert "There is no cluster whose key you may use" in shown
    answer = as_owner.post(
        reverse("image_stage", args=[image.pk]), {"where": f"{site.cluster.pk} sandbox "}
    )
    assert "where" in answer.context["stage_form"].errors


def test_what_is_being_done_is_shown_with_its_log_and_can_be_cancelled(
    as_owner: Client, people: People, image: Image, staged: StagedImage
) -> None:
    StagedImage.objects.update(state=StagedImage.State.STAGING)
    operation = OperationFactory(
        staged_image=staged,
        owner=people.owner,
        doing="Converting to SIF",
        step=2,
        steps=4,
        output_tail="\n".join(f"line {number}" for number in range(30)),
    )
    shown = page(as_owner, image, **{"HX-Request": "true"})
    assert "Converting to SIF" in shown
    assert 'aria-valuenow="25"' in shown
    assert "line 29" in shown
    assert "line 3 " not in shown
    address = reverse("operation", args=[operation.pk])
    assert "line 0" in as_owner.get(address).content.decode()
    cancel = reverse("operation_cancel", args=[operation.pk])
    assert cancel in shown
    assert cancel not in page(people.client("other"), image)
    as_owner.post(cancel)
    operation.refresh_from_db()
    assert operation.cancel_requested_at
    assert "being cancelled" in page(as_owner, image)


def test_the_history_keeps_what_failed_with_its_script(
    as_owner: Client, image: Image, staged: StagedImage
) -> None:
    operation = OperationFactory(
        staged_image=staged,
        state=Operation.State.FAILED,
        message="mksquashfs: no <space> left",
        script="#!/bin/bash\necho the script",
        output_tail="the output",
        started_at=NOON,
        ended_at=NOON,
    )
    shown = page(as_owner, image)
    assert "mksquashfs: no <space> left" in shown  # unescaped by this test
    assert "the output" not in shown
    assert "hx-trigger" not in shown.partition('id="live"')[2].partition(">")[0]
    detail = as_owner.get(reverse("operation", args=[operation.pk])).content.decode()
    assert "echo the script" in detail
    assert "the output" in detail
    assert "hx-trigger" not in detail.partition('id="live"')[2].partition(">")[0]


def test_removing_says_what_goes_and_which_environments_lose_it(
    as_owner: Client, people: People, image: Image, staged: StagedImage, site: Site
) -> None:
    ContainerFactory(name="Apptainer 2", cluster=site.cluster, staged_image=staged)
    shown = page(as_owner, image)
    assert "Removes <code>/images/it.sif</code>" in shown
    assert "Apptainer 2 will not start until it is staged again" in shown
    as_owner.post(reverse("staged_remove", args=[staged.pk]))
    assert Operation.objects.get().kind == "unstage"
    assert "removing" in page(as_owner, image)


def test_what_a_live_experiment_uses_stays(
    as_owner: Client, people: People, image: Image, staged: StagedImage, site: Site
) -> None:
    Environment.objects.filter(pk=site.container.pk).update(staged_image=staged)
    made = measured(site, people.owner, blocks=1)
    made.runs.filter(environment=site.container).update(state=Run.State.PLANNED)
    shown = page(as_owner, image)
    remove = reverse("staged_remove", args=[staged.pk])
    assert "An experiment that has not ended uses it, by Apptainer." in shown
    assert remove not in shown
    refused = as_owner.post(remove, follow=True)
    assert "An experiment that has not ended uses" in refused.content.decode()
    assert not Operation.objects.exists()


def test_what_was_registered_by_hand_is_verified_and_not_removed(
    as_owner: Client, image: Image, staged: StagedImage
) -> None:
    StagedImage.objects.update(made_here=False)
    shown = page(as_owner, image)
    assert "registered by hand" in shown
    assert reverse("staged_remove", args=[staged.pk]) not in shown
    as_owner.post(reverse("staged_verify", args=[staged.pk]))
    assert Operation.objects.get().kind == "verify"
    again = as_owner.post(reverse("staged_verify", args=[staged.pk]), follow=True)
    assert "already" in again.content.decode()
    assert Operation.objects.count() == 1


def test_labels_are_lines_and_what_has_several_lines_stays(as_owner: Client, image: Image) -> None:
    assert f"tare.lock.sha256={'d' * 64}</textarea>" in page(as_owner, image)
    address = reverse("image_labels", args=[image.pk])
    as_owner.post(address, {"lines": "2026\r\n paper = a=b \r\n\r\n"})
    image.refresh_from_db()
    assert image.labels == {"2026": "", "paper": "a=b", "note": "two\nlines"}
    assert AuditEntry.objects.filter(kind="image", what="changed").exists()
    for lines, words in (("=x", "has none"), ("a\na=2", "twice"), ("a" * 2000, "longer")):
        answer = as_owner.post(address, {"lines": lines})
        assert words in " ".join(answer.context["labels_form"].errors["lines"])


def test_who_may_do_what(people: People, image: Image, staged: StagedImage) -> None:
    viewer = Client()
    viewer.force_login(UserFactory(role=Role.VIEWER))
    shown = page(viewer, image)
    for name, pk in (
        ("image_stage", image.pk),
        ("image_labels", image.pk),
        ("staged_verify", staged.pk),
        ("staged_remove", staged.pk),
    ):
        assert reverse(name, args=[pk]) not in shown
        assert viewer.post(reverse(name, args=[pk])).status_code == 403
    other = people.client("other")  # a researcher: verifies and stages, and removes nothing
    assert other.post(reverse("image_labels", args=[image.pk])).status_code == 403
    assert other.post(reverse("staged_remove", args=[staged.pk])).status_code == 403
    assert not Operation.objects.exists()
    assert other.post(reverse("staged_verify", args=[staged.pk])).status_code == 302
    assert Operation.objects.get().kind == "verify"


def test_what_is_private_is_nobody_elses(people: People, image: Image, staged: StagedImage) -> None:
    operation = OperationFactory(staged_image=staged, owner=people.owner)
    Image.objects.update(visibility="private")
    other = people.client("other")
    for name, pk in (
        ("image", image.pk),
        ("image_stage", image.pk),
        ("image_labels", image.pk),
        ("staged_verify", staged.pk),
        ("staged_remove", staged.pk),
        ("operation", operation.pk),
        ("operation_cancel", operation.pk),
    ):
        address = reverse(name, args=[pk])
        send = other.get if name in ("image", "operation") else other.post
        assert send(address).status_code == 404, name


def test_many_forms_and_operations_cost_as_many_queries_as_few(
    as_owner: Client, people: People, image: Image, staged: StagedImage, site: Site
) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            page(as_owner, image)
        return len(captured)

    def more(count: int) -> None:
        for number in range(count):
            row = StagedImageFactory(
                image=image, cluster=site.cluster, path=f"/{count}/{number}", tree=TREE
            )
            ContainerFactory(cluster=site.cluster, staged_image=row)
            OperationFactory(staged_image=row, owner=people.other)
            OperationFactory(staged_image=row, state=Operation.State.DONE)

    more(2)
    page(as_owner, image)
    few = queries()
    more(7)
    assert queries() == few
    assert few <= 32


def test_an_image_is_deleted_when_nothing_rests_on_it(
    as_owner: Client, people: People, image: Image, staged: StagedImage, site: Site
) -> None:
    address = reverse("image_delete", args=[image.pk])
    assert "It is staged on lab: remove those forms first" in page(as_owner, image)
    StagedImage.objects.update(state=StagedImage.State.REMOVED)
    OperationFactory(staged_image=staged, state=Operation.State.DONE)
    container = ContainerFactory(name="Apptainer 2", cluster=site.cluster, staged_image=staged)
    shown = as_owner.post(address, follow=True).content.decode()
    assert "It is named by the environment Apptainer 2" in shown
    container.delete()
    assert people.client("other").post(address).status_code == 403
    assert as_owner.post(address)["Location"] == "/catalogue/"
    assert not Image.objects.filter(pk=image.pk).exists()
    assert AuditEntry.objects.filter(kind="image", what="deleted").exists()


def test_a_clusters_page_tells_of_work_on_images(
    as_owner: Client, people: People, staged: StagedImage, site: Site
) -> None:
    operation = OperationFactory(
        staged_image=staged, owner=people.owner, doing="Making the SIF file"
    )
    address = reverse("cluster", args=[site.cluster.pk])
    shown = as_owner.get(address).content.decode()
    assert "Making the SIF file" in shown
    assert reverse("operation", args=[operation.pk]) in shown
    Image.objects.update(visibility="private")
    assert "Making the SIF file" not in people.client("other").get(address).content.decode()
    Operation.objects.update(state=Operation.State.DONE)
    assert "Making the SIF file" not in as_owner.get(address).content.decode()


def test_the_signature_is_said_with_its_reason(as_owner: Client, image: Image) -> None:
    shown = page(as_owner, image)
    assert "not checked" in shown.partition('id="origin"')[2].partition("</section>")[0]
    Image.objects.update(
        signature_state="mismatch",
        signature_note="There is a signature, and none is by <the lab>.",
        signature_checked_at=NOON,
    )
    shown = page(as_owner, image).partition('id="origin"')[2].partition("</section>")[0]
    assert "signature does not fit" in shown
    assert "none is by <the lab>" in " ".join(shown.split())


def test_known_vulnerabilities_are_said_with_the_day_and_the_list_behind(
    as_owner: Client, image: Image
) -> None:
    assert "no list of advisories has been read" in page(as_owner, image)
    AdvisoryFactory(package="numpy", identifier="CVE-2026-1", affected=["<2.5"])
    AdvisoryFactory(package="tensorflow", affected=["<1"])
    shown = page(as_owner, image).partition('id="origin"')[2].partition("</section>")[0]
    words = " ".join(shown.split())
    assert "1 in 1 of 2 Python packages, as known on 1 November 2026 to a list." in words
    assert "CVE-2026-1" in shown
    assert "conda's" in html.unescape(shown)
    Image.objects.update(facts={"packages": {"python": {}}}, packages={})
    assert "none in 0 Python packages" in " ".join(page(as_owner, image).split())


def test_a_form_on_nodes_of_other_processors_is_named(
    as_owner: Client, image: Image, staged: StagedImage, site: Site
) -> None:
    row = Check("Partition gpu", "Architecture", "ok", "", value="aarch64").as_json()
    CheckReportFactory(cluster=site.cluster, rows=[row])
    words = "is for amd64; the nodes of lab are arm64. Experiments with it are refused."
    assert words in page(as_owner, image)
    Image.objects.update(architecture="arm64")
    assert words not in page(as_owner, image)
