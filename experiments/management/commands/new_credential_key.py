"""`manage.py new_credential_key`: print a key for CREDENTIAL_KEYS."""

from __future__ import annotations

from typing import Any

from cryptography.fernet import Fernet
from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = "Print a new key. Put it first in CREDENTIAL_KEYS, then run rotate_credentials."
    # It must work before there is a valid key.
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(Fernet.generate_key().decode())
