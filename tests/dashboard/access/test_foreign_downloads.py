"""Downloads of what others have written: a browser saves them, and takes none for a page."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from experiments.citations import save_citation
from experiments.models import Experiment, Run
from tests.experiments.bundles.studies import end_runs, launch
from tests.experiments.deposits.test_deposits import AUTHOR

pytestmark = pytest.mark.django_db
OF_AN_EXPERIMENT = (
    *("bundle_zip", "citation_bib", "citation_cff", "provenance_file", "checklist_file"),
    *("comparison_csv", "comparison_json", "comparison_tex", "comparison_parquet"),
    *("bencher_json", "runs_csv", "runs_json", "runs_parquet", "measurements_csv", "series_csv"),
)
OF_A_RUN = ("run_record", "run_provenance_file")


@pytest.fixture
def ended() -> Experiment:
    row = launch(question='<script>alert(1)</script> "é" \\ ; x=\u202e')
    end_runs(row)
    save_citation(row, row.owner, title="", licence="CC-BY-4.0", authors=[AUTHOR])
    return Experiment.objects.get(pk=row.pk)


def list_downloads(ended: Experiment) -> list[str]:
    run: Run = ended.runs.all()[0]
    image = ended.environments.exclude(staged_image=None)[0].staged_image.image
    image.facts = {"packages": {"python": {"numpy": "2.4"}}}  # without any there is no bill
    image.save()
    return [
        *(reverse(name, args=[ended.pk]) for name in OF_AN_EXPERIMENT),
        *(reverse(name, args=[run.uid]) for name in OF_A_RUN),
        *(reverse(name, args=[image.pk]) for name in ("image_spdx", "image_cyclonedx")),
        reverse("result_provenance_file", args=[ended.pk, 1, 1]),
    ]


def test_every_download_is_saved_under_a_plain_name(ended: Experiment) -> None:
    client = Client()
    client.force_login(ended.owner)
    wrong: list[Any] = []
    for address in list_downloads(ended):
        answer = client.get(address)
        b"".join(answer)  # its place among exports is free only then
        disposition = answer.get("Content-Disposition", "")
        is_saved = disposition.startswith("attachment")
        is_plain = not set(disposition) & set("<>\\\r\n\u202e")
        sniffs = answer.get("X-Content-Type-Options") != "nosniff"
        html = "html" in answer["Content-Type"]
        if answer.status_code != 200 or not is_saved or not is_plain or sniffs or html:
            wrong.append((address, answer.status_code, dict(answer.items())))
    assert wrong == []
