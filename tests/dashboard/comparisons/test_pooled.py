"""Pooled ratios: the page and its files have them where they are honest, else the reason."""

from __future__ import annotations

import json
import re

import pytest
from bs4 import BeautifulSoup
from django.test import Client
from django.urls import reverse

from experiments.models import Experiment
from tests.dashboard.conftest import People, Site, measured

pytestmark = pytest.mark.django_db


def make(site: Site, people: People, configurations: int, *, blocks: int = 6) -> Experiment:
    scales = [f"1x{number}" for number in range(1, configurations + 1)]
    return measured(site, people.owner, scales=scales, blocks=blocks, repeats=blocks)


def read_caption(client: Client, experiment: Experiment) -> str:
    page = client.get(reverse("comparison", args=[experiment.pk])).content
    caption = BeautifulSoup(page, "html.parser").select_one("figcaption")
    assert caption
    return " ".join(caption.get_text().split())


def read_rows(client: Client, experiment: Experiment) -> list[dict[str, object]]:
    answer = client.get(reverse("comparison_json", args=[experiment.pk]))
    return list(json.loads(answer.content)["pooled"])


def test_five_configurations_that_agree_have_a_diamond(
    site: Site, people: People, as_owner: Client
) -> None:
    made = make(site, people, 5)
    assert "is not pooled" not in read_caption(as_owner, made)
    page = as_owner.get(reverse("comparison", args=[made.pk])).content.decode()
    assert "Pooled over all 5 configurations" in page
    assert re.search(r"90.% prediction interval 1\.\d{3,5} to 1\.\d{3,5}", page)
    (row,) = read_rows(as_owner, made)
    assert row["pooled_ratio"] == pytest.approx(1.1, abs=1e-3)
    assert (row["why_not_pooled"], row["configurations"], row["level"]) == ("", 5, 0.9)
    assert row["prediction_ci_low"] is not None
    latex = as_owner.get(reverse("comparison_tex", args=[made.pk])).content.decode()
    assert "Paule and Mandel 1982" in latex


def test_where_it_is_not_honest_the_caption_and_the_file_say_why(
    site: Site, people: People, as_owner: Client
) -> None:
    two = make(site, people, 2)
    assert "is not pooled: 2 configurations do not tell" in read_caption(as_owner, two)
    few = make(site, people, 5, blocks=3)
    assert "5 of 5 configurations have too few runs" in read_caption(as_owner, few)
    (row,) = read_rows(as_owner, few)
    assert row["pooled_ratio"] is None
    assert "too few runs" in str(row["why_not_pooled"])
    assert "Pooled over" not in as_owner.get(reverse("comparison", args=[few.pk])).content.decode()


def test_one_configuration_says_nothing_of_pooling(
    site: Site, people: People, as_owner: Client
) -> None:
    one = make(site, people, 1)
    assert "pooled" not in read_caption(as_owner, one)
    assert read_rows(as_owner, one) == []
