"""Finding images: by name, digest, label, system, framework, and by what packages they hold."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from experiments.images.search import Term, find_packages, parse_terms, search
from experiments.models import Image
from tests.factories import ImageFactory

TRAINING = {"numpy": "2.4.6", "tensorflow-cpu": "2.21.0", "protobuf": "6.33.1, 4.25.0"}


@pytest.fixture
def training(db: None) -> Image:
    return ImageFactory(
        reference="lab/training:1",
        operating_system="Debian GNU/Linux 12 (bookworm)",
        framework="keras 3.12.0, tensorflow 2.21.0",
        packages=TRAINING,
        labels={"stage": 'of "Ann"'},
    )


@pytest.fixture
def plain(db: None) -> Image:
    return ImageFactory(
        reference="registry.example.org/numpy:2.41",
        operating_system="Rocky Linux 9.5",
        packages={"numpy": "2.41.0", "ruamel-yaml": "0.18.6"},
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("numpy", [Term("numpy")]),
        ("numpy 2.4", [Term("numpy", "2.4")]),
        ("numpy==2.4.6, debian 12", [Term("numpy", "2.4.6"), Term("debian", "12")]),
        ("2.4 numpy", [Term("2.4"), Term("numpy")]),
        ("sha256:0a1b 2", [Term("sha256:0a1b", "2")]),
        (" , = ", []),
    ],
)
def test_a_version_belongs_to_the_name_before_it(text: str, found: list[Term]) -> None:
    assert parse_terms(text) == found


@pytest.mark.parametrize(
    ("text", "references"),
    [
        ("", {"lab/training:1", "registry.example.org/numpy:2.41"}),
        ("numpy", {"lab/training:1", "registry.example.org/numpy:2.41"}),
        ("numpy 2.4", {"lab/training:1"}),
        ("numpy 2.41", {"registry.example.org/numpy:2.41"}),
        ("numpy 3", set()),
        ("NumPy 2.4.6 TensorFlow", {"lab/training:1"}),
        ("tensor", {"lab/training:1"}),
        ("tensorflow_cpu 2.21", {"lab/training:1"}),
        ("protobuf 4.25", {"lab/training:1"}),
        ("Ruamel.YAML", {"registry.example.org/numpy:2.41"}),
        ("debian 12", {"lab/training:1"}),
        ("keras 3.12", {"lab/training:1"}),
        ("keras 2.21", set()),
        ("training 1", {"lab/training:1"}),
        ("rocky 9", {"registry.example.org/numpy:2.41"}),
        ("rocky 5", set()),
        ('"Ann"', {"lab/training:1"}),
        ("numpy rocky debian", set()),
        ("%", set()),
        ("num_y", set()),
    ],
)
def test_every_term_must_be_there(
    text: str, references: set[str], training: Image, plain: Image
) -> None:
    found = search(Image.objects.all(), text)
    assert {image.reference for image in found} == references


def test_a_digest_is_found_by_its_beginning(training: Image, plain: Image) -> None:
    for text in (training.digest, training.short_digest, training.digest[:20]):
        assert search(Image.objects.all(), text).get() == training


def test_the_packages_that_were_found_are_told_with_their_versions(
    training: Image, plain: Image
) -> None:
    assert find_packages([training, plain], "numpy 2.4, proto") == {
        training.pk: ["numpy 2.4.6", "protobuf 6.33.1, 4.25.0"],
        plain.pk: ["numpy 2.41.0"],
    }
    assert find_packages([training], "") == {}


class Anything(TestCase):
    @given(
        text=st.text(alphabet=string.printable + "\\\"'$@%_é\U0001f600\0", max_size=30),
    )
    def test_no_text_breaks_the_search(self, text: str) -> None:
        rows = list(search(Image.objects.all(), text))
        assert find_packages(rows, text) == {}
        made = ImageFactory()
        find_packages([made], text)
        assert len(search(Image.objects.all(), text)) <= 1
        made.delete()
