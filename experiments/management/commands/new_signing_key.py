"""`manage.py new_signing_key`: make the key with which this site signs bundles."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from experiments.signing import make_signing_key


class Command(BaseCommand):
    help = "Make a key that signs bundles from now on. Those signed before can still be checked."

    def handle(self, *args: Any, **options: Any) -> None:
        row = make_signing_key()
        self.stdout.write(
            f"Bundles are signed by {row.fingerprint} from now on. "
            "The public key stands under /about/key/ on the site."
        )
