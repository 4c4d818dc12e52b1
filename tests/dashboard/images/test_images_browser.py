"""Images and environments in a real browser: uploads with a bar, choices that narrow the next."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from experiments.models import Environment, ImageImport, Operation, StagedImage
from tests.dashboard.conftest import Open, People, Site
from tests.factories import ImageFactory, OperationFactory, RuntimeFactory, StagedImageFactory

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("complaints"),
]


def test_an_upload_shows_how_far_it_is_and_then_the_catalogue(
    page: Page, open_page: Open, tmp_path: Path
) -> None:
    file = tmp_path / "training.tar"
    file.write_bytes(bytes(3_000_000))
    open_page("/catalogue/images/new/")
    form = page.locator("#way-upload")
    form.get_by_role("button", name="Upload it").click()
    expect(form).to_contain_text("This field is required")
    form.get_by_label("File").set_input_files(file)
    page.evaluate(
        "document.addEventListener('htmx:xhr:progress', () => console.info('bar at ' + "
        "document.querySelector('.sending:not([hidden]) progress').value))"
    )
    with page.expect_event("console", lambda message: message.text == "bar at 1"):
        form.get_by_role("button", name="Upload it").click()
    page.wait_for_url("**/catalogue/")
    expect(page.locator("#image_imports")).to_contain_text("training.tar")
    assert ImageImport.objects.get().total_bytes == 3_000_000


def test_a_file_that_is_too_large_is_not_sent_first(
    page: Page, open_page: Open, tmp_path: Path, settings: object
) -> None:
    settings.IMAGE_UPLOAD_BYTES = 1_000_000  # type: ignore[attr-defined]
    file = tmp_path / "big.tar"
    file.write_bytes(bytes(1_500_000))
    open_page("/catalogue/images/new/")
    page.get_by_label("File").set_input_files(file)
    expect(page.locator("#way-upload")).to_contain_text("larger than 1.00 MB")
    assert not ImageImport.objects.exists()


def test_from_an_image_to_an_environment(
    page: Page, open_page: Open, site: Site, people: People
) -> None:
    image = ImageFactory(reference="lab/training:2", owner=people.owner)
    RuntimeFactory(cluster=site.cluster, kind="udocker", executable="udocker")
    StagedImageFactory(image=image, cluster=site.cluster, format="udocker", mode="F3", path="it")
    StagedImageFactory(image=image, cluster=site.cluster, format="sif", path="/images/it.sif")
    open_page(image.get_absolute_url())
    page.locator(".staged", has_text="udocker F3").get_by_role("link", name="Make an env").click()
    expect(page.get_by_label("Name")).to_have_value("udocker F3 (training:2)")
    page.get_by_label("Variables").fill("OMP_NUM_THREADS=1")
    page.get_by_label("Runtime").focus()
    page.get_by_label("Runtime").select_option(label=str(site.container.runtime))
    expect(page.get_by_label("Mode")).to_contain_text("nvccli")
    expect(page.get_by_label("Runtime")).to_be_focused()
    expect(page.locator("#parts.htmx-added")).to_have_count(0)  # now it hears what is chosen
    page.get_by_label("Image").select_option(label="lab/training:2 as sif")
    expect(page.get_by_label("Name")).to_have_value("Apptainer sif (training:2)")
    expect(page.get_by_label("Variables")).to_have_value("OMP_NUM_THREADS=1")
    page.get_by_role("button", name="Add the environment").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Apptainer sif (training:2)")
    assert Environment.objects.get(staged_image__image=image).variables == {"OMP_NUM_THREADS": "1"}


def test_an_images_page_follows_what_is_done_and_ends_by_itself(
    page: Page, open_page: Open, site: Site, people: People
) -> None:
    staged = StagedImageFactory(
        cluster=site.cluster, state=StagedImage.State.STAGING, image__packages={"numpy": "2.4.6"}
    )
    operation = OperationFactory(
        staged_image=staged, owner=people.owner, doing="Making the SIF file"
    )
    open_page(staged.image.get_absolute_url())
    expect(page.locator(".staged")).to_contain_text("Making the SIF file")
    page.get_by_label("Search the packages").press_sequentially("torch")
    expect(page.locator("#packages")).to_contain_text("No package holds these words")
    Operation.objects.filter(pk=operation.pk).update(state=Operation.State.DONE)
    StagedImage.objects.filter(pk=staged.pk).update(state=StagedImage.State.READY)
    expect(page.locator("#live[hx-trigger]")).to_have_count(0)
    expect(page.get_by_role("link", name="Make an environment")).to_be_visible()
    expect(page.get_by_label("Search the packages")).to_have_value("torch")
