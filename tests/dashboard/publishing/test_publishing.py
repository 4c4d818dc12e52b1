"""The pages on which experiments are published."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from dashboard.comparisons import bundle_files
from dashboard.publishing.bibtex import write_bibtex
from dashboard.publishing.citation_forms import parse_authors, write_authors
from experiments.citations import Author, describe_citation, save_citation
from experiments.deposits import deposit_bundle
from experiments.models import AuditEntry, Deposit, DepositToken, Experiment, User
from experiments.signing import make_signing_key
from tests.dashboard.access.test_links import visitor
from tests.dashboard.conftest import fetch
from tests.deposit_service import TOKEN, Service, answer, serve_deposits
from tests.experiments.bundles.studies import end_runs, launch
from tests.factories import UserFactory, link_to

pytestmark = pytest.mark.django_db
LINES = "Curie, Marie; 0000-0002-1825-0097; Sorbonne; Paris\nBlack Sheep Ltd"
MARIE = Author("Curie", "Marie", "0000-0002-1825-0097", "Sorbonne; Paris")


@pytest.fixture
def experiment(monkeypatch: pytest.MonkeyPatch) -> Experiment:
    monkeypatch.setattr(bundle_files, "draw", lambda *_, **__: b"<svg/>")
    owner = UserFactory(username="marie", first_name="Marie", last_name="Curie")
    row = launch(repeats=3, owner=owner)
    end_runs(row)
    return Experiment.objects.get(pk=row.pk)


@pytest.fixture
def as_owner(experiment: Experiment) -> Client:
    client = Client()
    client.force_login(experiment.owner)
    return client


@pytest.fixture
def service(settings: Settings) -> Iterator[Service]:
    with serve_deposits() as running:
        settings.DEPOSIT_ADDRESS = running.address
        yield running


def page(client: Client, name: str, *arguments: object) -> str:
    return " ".join(fetch(client, reverse(name, args=arguments)).decode().split())


def test_authors_are_written_one_a_line_and_read_back() -> None:
    authors = parse_authors(LINES)
    assert authors == [MARIE, Author("Black Sheep Ltd")]
    assert parse_authors(write_authors(authors)) == authors
    assert parse_authors("Curie, Marie; Sorbonne")[0].affiliation == "Sorbonne"


def test_what_is_stated_is_shown_saved_and_cited_after_the_end(
    experiment: Experiment, as_owner: Client
) -> None:
    User.objects.filter(pk=experiment.owner_id).update(orcid="0000-0002-1825-0097")
    address = reverse("publication", args=[experiment.pk])
    assert "Curie, Marie; 0000-0002-1825-0097" in page(as_owner, "publication", experiment.pk)
    assert reverse("citation_cff", args=[experiment.pk]) not in page(
        as_owner, "experiment", experiment.pk
    )
    assert as_owner.get(reverse("citation_cff", args=[experiment.pk])).status_code == 404
    answered = as_owner.post(
        address, {"authors": LINES, "licence": "cc-by-4.0", "title": "  A  title "}, follow=True
    )
    assert "Saved." in answered.content.decode()
    cited = describe_citation(Experiment.objects.get(pk=experiment.pk))
    assert (cited.title, cited.licence) == ("A title", "CC-BY-4.0")
    assert [author.family for author in cited.authors] == ["Curie", "Black Sheep Ltd"]
    shown = page(as_owner, "experiment", experiment.pk)
    for text in (
        "https://orcid.org/0000-0002-1825-0097",
        "licence CC-BY-4.0",
        reverse("citation_bib", args=[experiment.pk]),
        reverse("citation_cff", args=[experiment.pk]),
    ):
        assert text in shown
    assert reverse("citation_bib", args=[experiment.pk]) in page(
        as_owner, "comparison", experiment.pk
    )
    assert b'given-names: "Marie"' in fetch(as_owner, reverse("citation_cff", args=[experiment.pk]))
    assert AuditEntry.objects.filter(kind="citation", actor=experiment.owner).exists()


@pytest.mark.parametrize(
    ("posted", "text"),
    [
        ({"authors": "Curie; 0000-0002-1825-0098"}, "Line 1: 0000-0002-1825-0098 is no ORCID"),
        ({"authors": f"{LINES}\n; Sorbonne"}, "Line 3: it names nobody"),
        ({"authors": f"{LINES}\n{LINES}"}, "is that of another author"),
        ({"authors": "Curie\n" * 101}, "at most 100 authors"),
        ({"authors": "x" * 121}, "at most 120 characters"),
        ({"licence": "mine"}, "SPDX has no licence"),
        ({"authors": "a\0b"}, "Null characters are not allowed"),
        ({"authors": "x" * 1_000_000}, "at most 60000 characters"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_saved(
    experiment: Experiment, as_owner: Client, posted: dict[str, str], text: str
) -> None:
    answered = as_owner.post(reverse("publication", args=[experiment.pk]), posted)
    assert text in answered.content.decode().replace("&#x27;", "'")
    assert not hasattr(Experiment.objects.get(pk=experiment.pk), "citation")


def test_links_that_hide_names_show_no_authors(experiment: Experiment) -> None:
    save_citation(experiment, experiment.owner, title="", licence="MIT", authors=[MARIE])
    for hides, status in ((False, 200), (True, 302)):  # as what there is not
        client = visitor(link_to(experiment, hides_names=hides))
        assert client.get(reverse("citation_bib", args=[experiment.pk])).status_code == status
        shown = client.get(reverse("experiment", args=[experiment.pk])).content.decode()
        assert ("orcid.org" in shown) == (not hides)


def test_an_entry_of_bibtex_holds_what_latex_would_read_otherwise(experiment: Experiment) -> None:
    odd = Author("Müller & Sons {x}", "A_b and C")
    save_citation(experiment, experiment.owner, title="50 % of $x", licence="", authors=[odd])
    text = write_bibtex(describe_citation(Experiment.objects.get(pk=experiment.pk)))
    assert r"author = {{Müller \& Sons \{x\}}, {A\_b and C}}," in text
    assert r"title = {{50 \% of \$x}}," in text
    assert text.startswith(f"@misc{{tare-e{experiment.pk},")
    assert text.count("{") == text.count("}")


def test_people_state_their_own_orcid(as_owner: Client, experiment: Experiment) -> None:
    address = reverse("publishing")
    refused = as_owner.post(address, {"orcid": "0000-0002-1825-0098"}).content.decode()
    assert "check digit" in refused
    as_owner.post(address, {"orcid": "https://orcid.org/0000-0002-1825-0097"})
    assert User.objects.get(pk=experiment.owner_id).orcid == "0000-0002-1825-0097"
    entry = AuditEntry.objects.filter(kind="user").latest("pk")
    assert entry.changes == {"orcid": ["", "0000-0002-1825-0097"]}


def test_a_token_is_saved_for_one_service_and_never_shown(
    as_owner: Client, experiment: Experiment, service: Service, settings: Settings
) -> None:
    address = reverse("publishing")
    refused = as_owner.post(address, {"token": "two words"}).content.decode()
    assert "one word of plain letters" in refused
    answered = as_owner.post(address, {"token": TOKEN}, follow=True)
    row = DepositToken.objects.get(owner=experiment.owner)
    assert (row.token.reveal(), row.service) == (TOKEN, service.address)
    assert TOKEN not in answered.content.decode()
    assert TOKEN not in str(AuditEntry.objects.values_list("changes", flat=True))
    settings.DEPOSIT_ADDRESS = "https://zenodo.org/api"
    shown = page(as_owner, "publishing")
    assert "this site deposits at zenodo.org now. It is sent nowhere." in shown
    as_owner.post(reverse("deposit_token_delete"))
    assert not DepositToken.objects.exists()


def test_a_deposit_is_followed_on_the_page(
    experiment: Experiment, as_owner: Client, service: Service
) -> None:
    make_signing_key()
    shown = page(as_owner, "publication", experiment.pk)
    for text in ("No authors are stated.", "No licence is stated.", "Save a token", "SHA256:"):
        assert text in shown, text
    save_citation(experiment, experiment.owner, title="", licence="MIT", authors=[MARIE])
    DepositToken.objects.create(owner=experiment.owner, service=service.address, token=TOKEN)
    address = reverse("deposit", args=[experiment.pk])
    as_owner.post(address, {"to": "publish"})
    refused = as_owner.post(address, {"to": "publish"}, follow=True).content.decode()
    assert "Not done. It is under way already." in refused
    assert "Waiting for a worker since" in page(as_owner, "publication", experiment.pk)
    part = as_owner.get(
        reverse("publication", args=[experiment.pk]), headers={"HX-Request": "true"}
    ).content.decode()
    assert 'id="deposit"' in part
    assert "<html" not in part
    row = Deposit.objects.get()
    service.fail("PUT /api/files/", answer(401, {"message": "<b>Unauthorized</b>"}))
    deposit_bundle(row.pk)
    shown = page(as_owner, "publication", experiment.pk)
    assert "does not know the token" in shown
    assert "&lt;b&gt;Unauthorized" in shown
    assert "10.5281/zenodo.1000 is reserved for it: another attempt goes on with it." in shown
    assert "10.5281/zenodo.1000 (reserved)" in page(as_owner, "experiment", experiment.pk)
    as_owner.post(address, {"to": "publish"})
    deposit_bundle(row.pk)
    assert "Published" in page(as_owner, "publication", experiment.pk)
    assert 'href="https://doi.org/10.5281/zenodo.1000"' in page(
        as_owner, "experiment", experiment.pk
    )
    assert len(service.depositions) == 1


def test_a_site_may_offer_no_deposits(
    experiment: Experiment, as_owner: Client, settings: Settings
) -> None:
    settings.DEPOSIT_ADDRESS = ""
    assert 'id="deposit"' not in page(as_owner, "publication", experiment.pk)
    assert 'id="token"' not in page(as_owner, "publishing")
    as_owner.post(reverse("deposit", args=[experiment.pk]), {"to": "draft"})
    assert not Deposit.objects.exists()
    assert as_owner.post(reverse("publishing"), {"token": TOKEN}).status_code == 200
    assert not DepositToken.objects.exists()
