"""`manage.py rotate_credentials`: encrypts every secret with the first key."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand
from django.db import transaction

from experiments import audit
from experiments.models import Credential
from experiments.secrets import SecretField

SECRETS = [
    field.name for field in Credential._meta.concrete_fields if isinstance(field, SecretField)
]


class Command(BaseCommand):
    help = "Encrypt all credentials with the first of CREDENTIAL_KEYS; then drop the old keys."

    def handle(self, *args: Any, **options: Any) -> None:
        with transaction.atomic():
            credentials = list(Credential.objects.select_for_update())
            for credential in credentials:
                # Reading opens with any key, writing seals with the first.
                credential.save(update_fields=SECRETS)
                audit.note(None, "encrypted anew", credential, why="manage.py rotate_credentials")
        self.stdout.write(f"{len(credentials)} credentials are encrypted with the first key now.")
