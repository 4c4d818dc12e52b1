"""`manage.py prepare_demo`: what `make demo` needs before the first page."""

from __future__ import annotations

import os
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand

from experiments import audit
from experiments.demo import HERE, LAB
from experiments.models import Cluster, Role, User

WHY = "manage.py prepare_demo"


class Command(BaseCommand):
    help = "Migrate, collect static files and set the demo user's password for this start."

    def handle(self, *args: Any, **options: Any) -> None:
        call_command("migrate", verbosity=0)
        if not (settings.STATIC_ROOT / "staticfiles.json").exists() or _newer_static_files():
            call_command("collectstatic", interactive=False, verbosity=0)
        site = {"role": Role.SITE_ADMINISTRATOR}
        user = audit.keep(None, User, why=WHY, defaults=site, username="demo")
        user.set_password(os.environ["TARE_DEMO_PASSWORD"])
        user.save(update_fields=["password"])
        # The cluster of the last start is gone; the `demo` command enables it when it is back.
        for cluster in Cluster.objects.filter(owner=user, name__in=(LAB, HERE), enabled=True):
            audit.keep(None, Cluster, why=WHY, defaults={"enabled": False}, pk=cluster.pk)


def _newer_static_files() -> bool:
    collected = (settings.STATIC_ROOT / "staticfiles.json").stat().st_mtime
    ours = (settings.BASE_DIR / "static").rglob("*")
    return any(path.stat().st_mtime > collected for path in ours)
