"""Secrets at rest: encrypted with keys of their own, shown by nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.db import models
from django.db.models.query_utils import DeferredAttribute


class WrongKey(Exception):
    """None of CREDENTIAL_KEYS opens this secret."""


class KeyRing:
    """The first key encrypts, all of them decrypt."""

    def __init__(self, keys: Sequence[str]) -> None:
        if not keys:
            raise ValueError(
                "CREDENTIAL_KEYS is empty: secrets could not be kept. "
                "Make a key with `manage.py new_credential_key`."
            )
        try:
            self._fernet = MultiFernet([Fernet(key) for key in keys])
        except ValueError:
            # The cause would show the key itself.
            raise ValueError("CREDENTIAL_KEYS holds a text that is not a Fernet key.") from None

    def seal(self, text: str) -> str:
        return self._fernet.encrypt(text.encode()).decode()

    def open(self, sealed: str) -> str:
        try:
            return self._fernet.decrypt(sealed.encode()).decode()
        except InvalidToken:
            raise WrongKey("No key in CREDENTIAL_KEYS opens this secret.") from None

    def reseal(self, sealed: str) -> str:
        """Return the same secret, encrypted with the first key."""
        return self.seal(self.open(sealed))


class Secret:
    """A text that no `repr`, log or traceback shows. `reveal()` is the only way out."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return "Secret(set)" if self._text else "Secret(empty)"

    __str__ = __repr__

    def __reduce__(self) -> Any:
        raise TypeError("A secret is not to be pickled.")


if TYPE_CHECKING:
    _TextField = models.TextField[Any, Any]
else:
    _TextField = models.TextField


# What serialised ciphertext begins with, so that loading it does not seal it again.
SEALED = "sealed:"


class SecretAttribute(DeferredAttribute):
    """Whatever is assigned becomes a `Secret` at once, before anything could show it."""

    def __set__(self, instance: models.Model, value: Any) -> None:
        instance.__dict__[self.field.attname] = self.field.to_python(value)


class SecretField(_TextField):
    """A column that holds ciphertext; attributes are `Secret`s. A wrong key fails closed."""

    descriptor_class = SecretAttribute

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> Secret:
        return Secret(KeyRing(settings.CREDENTIAL_KEYS).open(value) if value else "")

    def to_python(self, value: Any) -> Secret:
        if isinstance(value, str) and value.startswith(SEALED):
            return Secret(KeyRing(settings.CREDENTIAL_KEYS).open(value.removeprefix(SEALED)))
        return value if isinstance(value, Secret) else Secret(value or "")

    def get_prep_value(self, value: Any) -> str:
        text = self.to_python(value).reveal()
        return KeyRing(settings.CREDENTIAL_KEYS).seal(text) if text else ""

    def value_to_string(self, obj: models.Model) -> str:
        """Serialisers (dumpdata) get the ciphertext."""
        sealed = self.get_prep_value(self.value_from_object(obj))
        return SEALED + sealed if sealed else ""
