"""Keys as people hand them over: text in, keys and fingerprints out."""

import base64
import contextlib
import hashlib
import io

import paramiko
from paramiko.ssh_exception import PasswordRequiredException, SSHException

from runners.errors import TryAgain

KEY_CLASSES = (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey)


def fingerprint(public_key: str) -> str:
    """ "SHA256:..." as ssh-keygen shows it. ValueError if the text is no public key."""
    return fingerprint_of(parse_public_key(public_key))


def parse_public_key(text: str) -> paramiko.PKey:
    """The key in a line such as "ssh-ed25519 AAAA... comment". ValueError if there is none."""
    with contextlib.suppress(ValueError):
        _, content = text.split()[:2]
        blob = base64.b64decode(content, validate=True)
        for key_class in KEY_CLASSES:
            with contextlib.suppress(SSHException, ValueError, IndexError):
                return key_class(data=blob)
    raise ValueError("This is no ed25519, ECDSA or RSA public key.")


def load_private_key(text: str, passphrase: str = "") -> paramiko.PKey:
    """The ed25519, ECDSA or RSA key in the text of a key file. Raises TryAgain, without secrets."""
    for key_class in KEY_CLASSES:
        with contextlib.suppress(SSHException, ValueError, IndexError, TypeError):
            return key_class.from_private_key(io.StringIO(text), passphrase or None)
    if not _is_encrypted(text):
        raise TryAgain(
            "The private key cannot be read: it is damaged or neither ed25519, ECDSA nor RSA.",
            kind="key refused",
        )
    if passphrase:
        raise TryAgain("The passphrase does not open the private key.", kind="passphrase")
    raise TryAgain("The private key needs a passphrase, and none is stored.", kind="passphrase")


def _is_encrypted(text: str) -> bool:
    for key_class in KEY_CLASSES:
        try:
            key_class.from_private_key(io.StringIO(text))
        except PasswordRequiredException:
            return True
        except (SSHException, ValueError, IndexError, TypeError):
            continue
    return False


def fingerprint_of(key: paramiko.PKey) -> str:
    digest = hashlib.sha256(key.asbytes()).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")
