"""Signatures of cosign are looked for in a real registry, and verified by the site's keys."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from pytest_django import Settings

from experiments import execution
from experiments.images import image_imports
from experiments.images.signatures import NoKey, compute_key_fingerprint, load_key
from experiments.models import Image, ImageImport, TrustedKey
from runners.images.signatures import MOST_SIGNATURES
from tests.factories import AdminFactory, TrustedKeyFactory
from tests.runners.made_images import image, layer, os_release, sha256
from tests.runners.registry import LISTED, answering, push, push_index, request, serve
from tests.runners.signatures import (
    make_key,
    make_keyless_layer,
    make_layer,
    make_payload,
    make_stored,
    push_signature,
    sign,
    write_public,
)

pytestmark = pytest.mark.django_db

TOY = image(layer(*os_release()))
KEY, OTHER_KEY = make_key(), make_key()


@pytest.fixture
def host(settings: Settings, tmp_path: Path) -> Iterator[str]:
    settings.IMAGE_INSIDE_HOSTS = LISTED
    with serve(tmp_path, tmp_path / "registry") as host:
        push(host, "lab/toy", "1", TOY)
        yield host


def bring(host: str, name: str = "lab/toy:1", **more: Any) -> Image:
    row = image_imports.request_from_registry(f"{host}/{name}", AdminFactory(), **more)
    execution.receive(row.pk)
    row = ImageImport.objects.get(pk=row.pk)
    assert (row.state, row.problem) == ("done", "")
    assert row.image
    return row.image


def push_pairs(host: str, *pairs: tuple[bytes, dict[str, Any]]) -> None:
    push(host, "lab/toy", f"{TOY.digest.replace(':', '-')}.sig", make_stored(*pairs))


def test_a_signature_by_a_key_of_the_site_is_said_with_the_key(host: str) -> None:
    TrustedKeyFactory(name="the lab", prefix=f"{host}/lab", pem=write_public(KEY))
    push_signature(host, "lab/toy", TOY.digest, KEY)
    found = bring(host)
    assert found.signature_state == "signed"
    assert found.signature_key == "the lab"
    assert f"for {host}/lab, signed it" in found.signature_note
    assert found.signature_checked_at


def test_a_signature_over_the_list_of_platforms_counts_for_its_images(host: str) -> None:
    TrustedKeyFactory(prefix=host, pem=write_public(KEY))
    index = push_index(host, "lab/many", "1", amd64=TOY, arm64=image(layer(), architecture="arm64"))
    push_signature(host, "lab/many", f"sha256:{sha256(index)}", KEY)
    found = bring(host, "lab/many:1")
    assert (found.digest, found.signature_state) == (TOY.digest, "signed")
    assert "the list of platforms" in found.signature_note


def test_an_image_without_signatures_is_said_to_have_none(host: str) -> None:
    TrustedKeyFactory(prefix=host, pem=write_public(KEY))
    found = bring(host)
    assert (found.signature_state, found.signature_key) == ("none", "")
    assert found.signature_note == f"{host} has no signature of it."


FORGED: dict[str, Any] = {
    "by another key": {"key": OTHER_KEY},
    "over another digest": {"signed": "sha256:" + "0" * 64},
    "of another kind of document": {"kind": "atomic container signature"},
}


@pytest.mark.parametrize("case", FORGED)
def test_a_signature_that_does_not_fit_is_said(case: str, host: str) -> None:
    TrustedKeyFactory(name="the lab", prefix=f"{host}/lab", pem=write_public(KEY))
    push_signature(host, "lab/toy", TOY.digest, **{"key": KEY, **FORGED[case]})
    found = bring(host)
    assert (found.signature_state, found.signature_key) == ("mismatch", "")
    assert "none is by the lab over this digest" in found.signature_note


def test_one_byte_more_in_what_was_signed_does_not_fit(host: str) -> None:
    TrustedKeyFactory(prefix=host, pem=write_public(KEY))
    payload = make_payload(TOY.digest)
    push_pairs(host, (payload + b" ", make_layer(payload + b" ", sign(KEY, payload))))
    assert bring(host).signature_state == "mismatch"


def test_one_of_several_signatures_and_keys_is_enough(host: str) -> None:
    payload = make_payload(TOY.digest)
    TrustedKeyFactory(name="a", prefix=host, pem=write_public(OTHER_KEY))
    TrustedKeyFactory(name="b", prefix=f"{host}/lab/toy", pem=write_public(KEY))
    strange = make_key()
    push_pairs(
        host,
        (payload, make_layer(payload, sign(strange, payload))),
        (payload, make_layer(payload, sign(KEY, payload))),
    )
    assert bring(host).signature_key == "b"


@pytest.mark.parametrize("prefix", ["{host}/la", "{host}/lab/to", "other.example.org", "{host}1"])
def test_a_key_for_another_part_of_the_registry_proves_nothing(prefix: str, host: str) -> None:
    TrustedKeyFactory(prefix=prefix.format(host=host), pem=write_public(KEY))
    push_signature(host, "lab/toy", TOY.digest, KEY)
    found = bring(host)
    assert found.signature_state == "unchecked"
    assert f"no key was entered for {host}/lab/toy" in found.signature_note


def test_what_was_signed_without_a_key_is_named_and_not_verified(host: str) -> None:
    TrustedKeyFactory(prefix=host, pem=write_public(KEY))
    payload = make_payload(TOY.digest)
    push_pairs(host, (payload, make_keyless_layer(payload, sign(OTHER_KEY, payload))))
    found = bring(host)
    assert found.signature_state == "unchecked"
    assert "made without a key (Fulcio, Rekor), which Tare does not verify" in found.signature_note


def test_signatures_that_refer_to_the_image_are_found_too(host: str) -> None:
    """Debian's registry has no such list of its own, so it is the one under a tag."""
    TrustedKeyFactory(name="the lab", prefix=host, pem=write_public(KEY))
    payload = make_payload(TOY.digest)
    stored = make_stored((payload, make_layer(payload, sign(KEY, payload))))
    push(host, "lab/toy", stored.digest, stored)
    entry = {
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "digest": stored.digest,
        "size": len(stored.manifest),
        "artifactType": "application/vnd.dev.cosign.artifact.sig.v1+json",
    }
    kind = "application/vnd.oci.image.index.v1+json"
    index = {"schemaVersion": 2, "mediaType": kind, "manifests": [entry]}
    tag = TOY.digest.replace(":", "-")
    request(f"http://{host}/v2/lab/toy/manifests/{tag}", "PUT", json.dumps(index).encode(), kind)
    assert bring(host).signature_key == "the lab"


def test_a_sigstore_bundle_is_named_and_not_verified(host: str) -> None:
    TrustedKeyFactory(prefix=host, pem=write_public(KEY))
    stored = make_stored()
    push(host, "lab/toy", stored.digest, stored)
    entry = {
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "digest": stored.digest,
        "size": len(stored.manifest),
        "artifactType": "application/vnd.dev.sigstore.bundle.v0.3+json",
    }
    kind = "application/vnd.oci.image.index.v1+json"
    index = {"schemaVersion": 2, "mediaType": kind, "manifests": [entry]}
    tag = TOY.digest.replace(":", "-")
    request(f"http://{host}/v2/lab/toy/manifests/{tag}", "PUT", json.dumps(index).encode(), kind)
    found = bring(host)
    assert found.signature_state == "unchecked"
    assert "Sigstore bundle, which Tare does not read" in found.signature_note


def make_odd_layers() -> Iterator[tuple[bytes, Any]]:
    payload = make_payload(TOY.digest)
    yield payload, make_layer(payload, "no base64 \u00e9")
    yield payload, make_layer(payload, None)
    yield payload, make_layer(payload, "AAAA") | {"annotations": 5}
    yield payload, make_layer(payload, sign(KEY, payload)) | {"size": 1 << 30}
    large = b"x" * (100 << 10)
    yield large, make_layer(large, sign(KEY, large)) | {"size": 10}
    nested = b"[" * 20_000
    yield nested, make_layer(nested, sign(KEY, nested))
    for content in (b"\xff\0", b"[]", b"{}", b'{"critical": {"image": 1, "type": null}}'):
        yield content, make_layer(content, sign(KEY, content))


def test_odd_signatures_stop_neither_the_import_nor_a_good_one_beside_them(host: str) -> None:
    TrustedKeyFactory(prefix=host, pem=write_public(KEY))
    odd = [
        (payload, row)
        for payload, row in make_odd_layers()  # the registry itself refuses the others
        if row["size"] == len(payload) and isinstance(row["annotations"], dict)
    ]
    push_pairs(host, *odd)
    assert bring(host).signature_state == "mismatch"
    payload = make_payload(TOY.digest)
    good = payload, make_layer(payload, sign(KEY, payload))
    push_pairs(host, *odd, good)
    assert bring(host).signature_state == "signed"


def answer_by(manifest: bytes, payload: bytes = b"") -> Any:
    """Return a registry that says what no real one would: TOY, with this under its .sig tag."""
    blobs = {f"sha256:{name}": blob for name, blob in list_blobs()}

    def answer(path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        name = path.rpartition("/")[2]
        if "/manifests/" in path and name.endswith(".sig"):
            return 200, {}, manifest
        if "/manifests/" in path and name in ("1", TOY.digest):
            return 200, {}, TOY.manifest
        if name in blobs:
            return 200, {}, blobs[name]
        if "/blobs/" in path and payload:
            return 200, {}, payload
        return 404, {}, b""

    return answer


def list_blobs() -> Iterator[tuple[str, bytes]]:
    for blob in (*TOY.blobs, TOY.config):
        yield sha256(blob), blob


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (b"<html>", "damaged"),
        (b"[" * 100_000, "damaged"),
        (b'{"layers": {"a": 1}}', "has no signature"),
        (b'{"layers": [1, null, {"mediaType": []}]}', "has no signature"),
        (
            json.dumps({"layers": [layer for _, layer in make_odd_layers()] * 2000}).encode(),
            "A signature is damaged",
        ),
        (b"x" * (17 << 20), "more than a manifest can be"),
    ],
)
def test_a_registry_that_answers_oddly_does_not_stop_the_import(
    manifest: bytes, words: str, settings: Settings
) -> None:
    settings.IMAGE_INSIDE_HOSTS = LISTED
    with answering(answer_by(manifest, b"y")) as host:
        found = bring(host)
    assert found.signature_state in ("none", "unchecked")
    assert words in found.signature_note


def test_a_registry_that_does_not_give_signatures_leaves_them_unchecked(
    settings: Settings,
) -> None:
    settings.IMAGE_INSIDE_HOSTS = LISTED
    usual = answer_by(b"")

    def answer(path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        return (503, {}, b"") if path.endswith(".sig") else usual(path, headers)

    with answering(answer) as host:
        found = bring(host)
    assert found.signature_state == "unchecked"
    assert "could not be read" in found.signature_note
    assert "503" in found.signature_note


def test_another_copy_without_signatures_takes_none_away(host: str) -> None:
    TrustedKeyFactory(name="the lab", prefix=host, pem=write_public(KEY))
    push_signature(host, "lab/toy", TOY.digest, KEY)
    push(host, "copies/toy", "1", TOY)
    assert bring(host, "copies/toy:1").signature_state == "none"
    assert bring(host).signature_state == "signed"
    again = bring(host, "copies/toy:1")
    assert (again.signature_state, again.signature_key) == ("signed", "the lab")


def test_only_so_many_signatures_are_read(host: str) -> None:
    payload = make_payload(TOY.digest)
    pairs = [(payload, make_layer(payload, sign(KEY, payload))) for _ in range(MOST_SIGNATURES + 5)]
    push_pairs(host, *pairs)
    assert f"There are {MOST_SIGNATURES} signatures" in bring(host).signature_note


def write_others() -> Iterator[tuple[str, str]]:
    yield "", "no public key in PEM"
    yield "caf\u00e9 \ud800", "no public key in PEM"
    yield "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", "no public key in PEM"
    yield "-----BEGIN ENCRYPTED COSIGN PRIVATE KEY-----\nAAAA", "This is a private key"
    yield write_public(ec.generate_private_key(ec.SECP384R1())), "P-256"
    yield write_public(ed25519.Ed25519PrivateKey.generate()), "P-256"


@pytest.mark.parametrize(("pem", "words"), list(write_others()))
def test_what_is_no_key_of_cosign_is_refused_in_words(pem: str, words: str) -> None:
    with pytest.raises(NoKey, match=words):
        load_key(pem)


def test_a_key_is_known_by_its_fingerprint_however_it_is_pasted() -> None:
    pem = write_public(KEY)
    assert compute_key_fingerprint(f"\n {pem}\n\n") == compute_key_fingerprint(pem)
    assert TrustedKey(prefix="a.example").covers("A.example/x")
    assert not TrustedKey(prefix="a.example/x").covers("a.example/xy")
