"""`manage.py rotate_credentials`: encrypt every secret with the first key."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import models, transaction

from experiments.access import audit
from experiments.encryption import (
    Secret,
    list_models_with_secrets,
    list_secret_fields,
    list_unopened_secrets,
)


class Command(BaseCommand):
    help = "Encrypt all secrets with the first of CREDENTIAL_KEYS; then drop the old keys."

    def handle(self, *args: Any, **options: Any) -> None:
        """Encrypt what a key opens. Raises CommandError that names the secrets which none does."""
        lost: list[str] = []
        for model in list_models_with_secrets():
            count = 0
            with transaction.atomic():
                for row in list_rows_with_secrets(model).select_for_update():
                    closed = list_unopened_secrets(row)
                    lost += [f"{name} of {model._meta.verbose_name} {row}" for name in closed]
                    count += encrypt_anew(row, closed)
            kinds = model._meta.verbose_name_plural
            self.stdout.write(f"{count} {kinds} are encrypted with the first key now.")
        if lost:
            raise CommandError(
                "No key in CREDENTIAL_KEYS opens " + ", ".join(lost) + ". They stay as they were: "
                "put back the key with which they were encrypted, and rotate again."
            )


def list_rows_with_secrets(model: type[models.Model]) -> models.QuerySet[models.Model]:
    """Return the rows of a model that hold a secret."""
    filled = [~models.Q(**{name: ""}) for name in list_secret_fields(model)]
    return model._default_manager.filter(reduce(or_, filled)).order_by("pk")


def encrypt_anew(row: models.Model, closed: list[str]) -> bool:
    """Open the secrets of `row`, all but the `closed`, and seal them with the first key."""
    secrets = {name: getattr(row, name) for name in list_secret_fields(type(row))}
    opened = [name for name, secret in secrets.items() if secret and name not in closed]
    if not opened:
        return False
    for name in opened:
        setattr(row, name, Secret(secrets[name].reveal()))
    row.save(update_fields=opened)
    audit.note(None, "encrypted anew", row, why="manage.py rotate_credentials")
    return True
