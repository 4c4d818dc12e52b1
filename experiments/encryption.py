"""Secrets at rest: encrypted with keys of their own, shown by nothing.

A row that is read holds ciphertext. It is opened where the secret is used and nowhere else, so
that a key that is missing stops a log-in, with words, and never a page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.apps import apps
from django.conf import settings
from django.db import models
from django.db.models.query_utils import DeferredAttribute


class WrongKey(Exception):
    """None of CREDENTIAL_KEYS opens this secret. The message can be shown to anybody."""


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
            raise WrongKey("No key in CREDENTIAL_KEYS opens it.") from None


class Secret:
    """A text that no `repr`, log or traceback shows. `reveal()` is the only way out.

    One that came from the database is `sealed`: ciphertext, until it is revealed.
    """

    __slots__ = ("_sealed", "_text")

    def __init__(self, text: str = "", *, sealed: str = "") -> None:
        self._text, self._sealed = text, sealed

    def reveal(self) -> str:
        """Return the text. Raises WrongKey."""
        if not self._sealed:
            return self._text
        try:
            ring = KeyRing(settings.CREDENTIAL_KEYS)
        except ValueError as problem:
            raise WrongKey(str(problem)) from None
        return ring.open(self._sealed)

    def opens(self) -> bool:
        """Return whether one of CREDENTIAL_KEYS opens it; what is empty needs none."""
        try:
            self.reveal()
        except WrongKey:
            return False
        return True

    def sealed(self) -> str:
        """Return ciphertext, "" of what is empty. What is sealed already stays as it is."""
        if self._sealed or not self._text:
            return self._sealed
        return KeyRing(settings.CREDENTIAL_KEYS).seal(self._text)

    def __bool__(self) -> bool:
        return bool(self._text or self._sealed)

    def __eq__(self, other: object) -> bool:
        """Return whether both hold the same text. What no key opens equals its own copies only."""
        if not isinstance(other, Secret):
            return NotImplemented
        if self._sealed and self._sealed == other._sealed:
            return True
        return self.opens() and other.opens() and self.reveal() == other.reveal()

    __hash__ = None  # type: ignore[assignment]  # equal texts are sealed differently each time

    def __repr__(self) -> str:
        return "Secret(set)" if self else "Secret(empty)"

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
        instance.__dict__[self.field.attname] = wrap_secret(value)


class SecretField(_TextField):
    """A column that holds ciphertext; attributes are `Secret`s. A wrong key fails closed."""

    descriptor_class = SecretAttribute

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> Secret:
        return Secret(sealed=value or "")

    def to_python(self, value: Any) -> Secret:
        """Return what a serialised row holds; only there does ciphertext stand for its secret."""
        if isinstance(value, str) and value.startswith(SEALED):
            return Secret(sealed=value.removeprefix(SEALED))
        return wrap_secret(value)

    def get_prep_value(self, value: Any) -> str:
        return wrap_secret(value).sealed()

    def value_to_string(self, obj: models.Model) -> str:
        """Serialisers (dumpdata) get the ciphertext."""
        sealed = self.get_prep_value(self.value_from_object(obj))
        return SEALED + sealed if sealed else ""


def wrap_secret(value: Any) -> Secret:
    """Return the value as a `Secret`; None becomes an empty one."""
    return value if isinstance(value, Secret) else Secret(value or "")


def list_secret_fields(model: type[models.Model]) -> list[str]:
    """Return the names of a model's secret columns."""
    return [field.name for field in model._meta.concrete_fields if isinstance(field, SecretField)]


def list_models_with_secrets() -> list[type[models.Model]]:
    """Return the models that have a secret column."""
    return [model for model in apps.get_models() if list_secret_fields(model)]


def list_unopened_secrets(row: models.Model) -> list[str]:
    """Return the names of those secrets of `row` that none of CREDENTIAL_KEYS opens."""
    return [name for name in list_secret_fields(type(row)) if not getattr(row, name).opens()]
