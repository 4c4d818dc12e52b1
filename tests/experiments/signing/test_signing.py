"""Bundles are signed by the site's key; `ssh-keygen` and `verify.py` both check that."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from experiments.citations import Author, save_citation
from experiments.models import Experiment, SigningKey
from experiments.signing import NAMESPACE, PRINCIPAL, find_signer, make_signing_key, ssh_signatures
from tests.experiments.bundles.studies import end_runs, launch, make_bundle, unpack, verify
from tests.experiments.bundles.test_forgeries import Files, pack, sum_up

pytestmark = pytest.mark.django_db
MANIFEST, SIGNATURE = "tagmanifest-sha256.txt", "tagmanifest-sha256.txt.sig"


@pytest.fixture
def experiment() -> Experiment:
    row = launch(repeats=3)
    end_runs(row)
    return Experiment.objects.get(pk=row.pk)


def check_with_ssh(folder: Path, files: Files, signers: bytes) -> subprocess.CompletedProcess[str]:
    """Have OpenSSH check the signature, by the command of README.txt."""
    (folder / "signers").write_bytes(signers)
    (folder / "sig").write_bytes(files[SIGNATURE])
    return subprocess.run(
        [
            *("ssh-keygen", "-Y", "verify", "-f", str(folder / "signers")),
            *("-I", PRINCIPAL, "-n", NAMESPACE, "-s", str(folder / "sig")),
        ],
        input=files[MANIFEST].decode(),
        capture_output=True,
        text=True,
        check=False,
    )


def test_ssh_keygen_and_verify_agree_that_it_is_signed(
    experiment: Experiment, client: Client, tmp_path: Path
) -> None:
    row = make_signing_key()
    content = make_bundle(experiment)
    files = unpack(content)
    published = client.get(reverse("site_key")).content
    assert published == files["allowed_signers"]
    checked = check_with_ssh(tmp_path, files, published)
    assert checked.returncode == 0, checked.stderr
    assert row.fingerprint in checked.stdout
    status, text = verify(content, tmp_path)
    assert (status, f"Signed by the key {row.fingerprint}." in text) == (0, True), text
    assert row.fingerprint in files["README.txt"].decode()
    other = ssh_signatures.find_fingerprint(
        ssh_signatures.write_public_key(ssh_signatures.make_key())
    )
    assert verify(content, tmp_path, "--signer", row.fingerprint)[0] == 0
    status, text = verify(content, tmp_path, "--signer", other)
    assert (status, "was to be by" in text) == (1, True), text


def change_the_data(files: Files) -> Files:
    """Change a file and sum everything up anew, with the old signature."""
    old = files[SIGNATURE]
    files = {name: content for name, content in files.items() if name != SIGNATURE}
    files["data/methods.txt"] = b"Others.\n"
    return sum_up(files) | {SIGNATURE: old}


def take_the_signature_away(files: Files) -> Files:
    return {name: content for name, content in files.items() if name != SIGNATURE}


def flip_a_bit(files: Files) -> Files:
    lines = files[SIGNATURE].decode().split("\n")
    blob = bytearray(base64.b64decode("".join(lines[1:-2])))
    blob[-20] ^= 1
    text = base64.b64encode(blob).decode()
    files[SIGNATURE] = "\n".join([lines[0], text, *lines[-2:]]).encode()
    return files


def sign_for_something_else(files: Files) -> Files:
    key = SigningKey.objects.get().private.reveal()
    files[SIGNATURE] = ssh_signatures.sign(key, files[MANIFEST], "git")
    return files


def write_no_signature(files: Files) -> Files:
    files[SIGNATURE] = b"-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n"
    return files


@pytest.mark.parametrize(
    "forge",
    [
        change_the_data,
        take_the_signature_away,
        flip_a_bit,
        sign_for_something_else,
        write_no_signature,
    ],
)
def test_a_forged_signature_is_noticed(
    experiment: Experiment, tmp_path: Path, forge: object
) -> None:
    make_signing_key()
    files = unpack(make_bundle(experiment))
    forged = forge(dict(files))  # type: ignore[operator]
    status, text = verify(pack(forged), tmp_path)
    assert status == 1, text
    assert "WRONG: " + SIGNATURE in text, text
    if SIGNATURE in forged:
        assert check_with_ssh(tmp_path, forged, files["allowed_signers"]).returncode != 0


def test_who_signs_with_a_key_of_their_own_is_found_out_by_the_published_one(
    experiment: Experiment, tmp_path: Path
) -> None:
    row = make_signing_key()
    files = unpack(make_bundle(experiment))
    published = files["allowed_signers"]
    forger = ssh_signatures.make_key()
    files = {name: content for name, content in files.items() if name != SIGNATURE}
    public = ssh_signatures.write_public_key(forger)
    files["allowed_signers"] = f"{PRINCIPAL} {public}\n".encode()
    files = sum_up(files)
    files[SIGNATURE] = ssh_signatures.sign(forger, files[MANIFEST], NAMESPACE)
    assert check_with_ssh(tmp_path, files, published).returncode != 0
    assert verify(pack(files), tmp_path)[0] == 0  # it cannot know whose key it is
    assert verify(pack(files), tmp_path, "--signer", row.fingerprint)[0] == 1


def test_our_signature_is_that_of_ssh_keygen(tmp_path: Path) -> None:
    private = ssh_signatures.make_key()
    path = tmp_path / "key"
    path.write_text(private)
    path.chmod(0o600)
    signed = subprocess.run(
        ["ssh-keygen", "-Y", "sign", "-f", str(path), "-n", NAMESPACE],
        input=b"a message",
        capture_output=True,
        check=True,
    )
    assert ssh_signatures.sign(private, b"a message", NAMESPACE) == signed.stdout


def test_a_site_without_a_key_says_that_bundles_are_not_signed(
    experiment: Experiment, client: Client, tmp_path: Path, settings: Settings
) -> None:
    assert client.get(reverse("site_key")).status_code == 404
    content = make_bundle(experiment)
    files = unpack(content)
    assert not {SIGNATURE, "allowed_signers"} & files.keys()
    assert "It is not signed. This site has no key" in files["README.txt"].decode()
    status, text = verify(content, tmp_path)
    assert (status, "Not signed" in text) == (0, True)
    assert verify(content, tmp_path, "--signer", "SHA256:x")[0] == 1
    call_command("new_signing_key")
    settings.CREDENTIAL_KEYS = [Fernet.generate_key().decode()]
    signer, why = find_signer()
    assert (signer, why) == (None, "This site can no longer read its key.")
    assert SIGNATURE not in unpack(make_bundle(experiment))


def test_another_key_signs_from_then_on_and_both_are_published(
    experiment: Experiment, client: Client, tmp_path: Path
) -> None:
    call_command("new_signing_key")
    first = unpack(make_bundle(experiment))
    call_command("new_signing_key")
    second = unpack(make_bundle(experiment))
    published = client.get(reverse("site_key")).content
    assert first["allowed_signers"] != second["allowed_signers"]
    for files in (first, second):
        assert check_with_ssh(tmp_path, files, published).returncode == 0


def test_authors_and_licence_stand_in_the_crate(experiment: Experiment, tmp_path: Path) -> None:
    person = Author("Curie", "Marie", "0000-0002-1825-0097", "Sorbonne")
    save_citation(
        experiment,
        experiment.owner,
        title="A title",
        licence="CC-BY-4.0",
        authors=[person, Author("Nobody")],
    )
    content = make_bundle(Experiment.objects.get(pk=experiment.pk))
    files = unpack(content)
    graph = {
        entity["@id"]: entity
        for entity in json.loads(files["data/ro-crate-metadata.json"])["@graph"]
    }
    orcid = "https://orcid.org/0000-0002-1825-0097"
    assert graph["./"]["author"] == [{"@id": orcid}, {"@id": "#author-2"}]
    assert graph["./"]["license"] == {"@id": "https://spdx.org/licenses/CC-BY-4.0"}
    assert graph["./"]["name"] == "A title"
    assert graph[orcid]["name"] == "Marie Curie"
    assert graph[graph[orcid]["affiliation"]["@id"]]["name"] == "Sorbonne"
    assert "#licence" not in graph
    assert b"family-names" in files["data/CITATION.cff"]
    assert verify(content, tmp_path)[0] == 0
