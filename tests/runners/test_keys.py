"""Which words a key file gets that is of no use. The files are ssh-keygen's own."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.errors import TryAgain
from runners.transports import fingerprint_public_key, format_public_key, load_private_key
from tests.runners.sshd import make_key, sign

PEM = """-----BEGIN CERTIFICATE-----
MIIBszCCAVmgAwIBAgIUQ2fQkEJZ
-----END CERTIFICATE-----
"""
PUTTY = """PuTTY-User-Key-File-3: ssh-ed25519
Encryption: none
Private-Lines: 1
AAAAIHNlY3JldCBzZWNyZXQgc2VjcmV0
"""
PHRASE = "correct horse"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of keys and certificates, made once."""
    folder = tmp_path_factory.mktemp("keys")
    make_key(folder / "plain")
    make_key(folder / "locked", passphrase=PHRASE)
    make_key(folder / "authority")
    make_key(folder / "dsa", "-t", "dsa")
    make_key(folder / "pem", "-t", "rsa", "-m", "PEM")
    make_key(folder / "pkcs8", "-t", "rsa", "-m", "PKCS8")
    make_key(folder / "locked_pem", "-t", "rsa", "-m", "PEM", passphrase=PHRASE)
    make_key(folder / "gcm", "-t", "ed25519", "-Z", "aes256-gcm@openssh.com", passphrase=PHRASE)
    sign(folder / "authority", folder / "plain")
    plain = (folder / "plain").read_text()
    lines = plain.splitlines()
    texts = {
        "empty": " \n",
        "shopping list": "milk\neggs\n",
        "putty.ppk": PUTTY,
        "web.pem": PEM,
        "no end": "\n".join(lines[:-1]),
        "a line less": "\n".join([*lines[:2], *lines[3:]]),
        "half a line": plain.replace(lines[2], lines[2][:-8]),
        "first line only": f"{lines[0]}\n{lines[-1]}\n",
        "pem cut": (folder / "pem").read_text()[:900],
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("name", "passphrase", "kind", "message"),
    [
        ("plain.pub", "", "key refused", "the public key of a pair"),
        ("plain-cert.pub", "", "key refused", "an SSH certificate, not the private key"),
        ("putty.ppk", "", "key refused", "PuTTYgen, Conversions, Export OpenSSH key"),
        ("web.pem", "", "key refused", "a certificate as web servers have it"),
        ("dsa", "", "key refused", "DSA key, which SSH servers no longer accept"),
        ("empty", "", "key refused", "No private key was given"),
        ("shopping list", "", "key refused", "This text is no private key"),
        ("no end", "", "key refused", "-----END OPENSSH PRIVATE KEY-----, is missing"),
        ("pem cut", "", "key refused", "-----END RSA PRIVATE KEY-----, is missing"),
        ("a line less", "", "key refused", "cut off or damaged"),
        ("half a line", "", "key refused", "cut off or damaged"),
        ("first line only", "", "key refused", "cut off or damaged"),
        ("pkcs8", "", "key refused", "PKCS#8"),
        ("gcm", PHRASE, "key refused", "-Z aes256-ctr"),
        ("locked", "", "passphrase", "needs a passphrase"),
        ("locked", "wrong phrase", "passphrase", "does not open the private key"),
        ("locked_pem", "", "passphrase", "needs a passphrase"),
        ("locked_pem", "wrong phrase", "passphrase", "does not open the private key"),
    ],
)
def test_each_bad_key_file_is_called_what_it_is(keys, name, passphrase, kind, message):
    text = (keys / name).read_text()
    with pytest.raises(TryAgain) as caught:
        load_private_key(text, passphrase)
    assert caught.value.kind == kind
    assert message in str(caught.value)
    shown = f"{caught.value!r}{caught.value.__cause__!r}"
    for line in text.splitlines():
        if len(line) > 12 and not line.startswith("-----"):
            assert line not in shown
    assert not passphrase or passphrase not in shown


@pytest.mark.parametrize(
    ("name", "passphrase"), [("plain", ""), ("locked", PHRASE), ("pem", ""), ("locked_pem", PHRASE)]
)
def test_a_whole_key_is_read_however_it_was_pasted(keys, name, passphrase):
    text = (keys / name).read_text()
    shown = subprocess.check_output(["ssh-keygen", "-lf", keys / f"{name}.pub"], text=True)
    pastes = [text, text.replace("\n", "\r\n"), "\ufeff" + text, "\n\n  " + text.strip()]
    for paste in [*pastes, "\n".join(f"    {line}  " for line in text.splitlines())]:
        line = format_public_key(load_private_key(paste, passphrase), "tare-lab")
        assert line.split()[:2] == (keys / f"{name}.pub").read_text().split()[:2]
        assert line.endswith(" tare-lab")
        assert fingerprint_public_key(line) == shown.split()[1]


@given(at=st.integers(0, 380), text=st.text(max_size=40))
def test_whatever_is_handed_in_ends_in_words(keys, at, text):
    key = (keys / "plain").read_text()
    for damaged in (key[:at] + text, key[:at] + text + key[at + 1 :], text):
        message = "."
        try:
            load_private_key(damaged)
        except TryAgain as problem:
            message = str(problem)
        assert message.endswith((".", "FILE"))
