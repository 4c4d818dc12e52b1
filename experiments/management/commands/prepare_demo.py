"""`manage.py prepare_demo`: prepare what `make demo` needs before the first page."""

from __future__ import annotations

import fcntl
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.utils import timezone

from experiments.access import audit
from experiments.demo import LAB, THIS_MACHINE
from experiments.models import Cluster, Role, User

WHY = "manage.py prepare_demo"


# The cluster of the last start is gone. The `demo` command ends this pause when it is back.
LONGEST_START = timedelta(hours=1)
STATIC_FILES = settings.BASE_DIR / "static"
PASSWORD_CHANGED = "password changed"  # noqa: S105 - what is printed


class Command(BaseCommand):
    help = (
        "Migrate, collect static files and make the demo user with the password in "
        f'$TARE_DEMO_PASSWORD. Print "{PASSWORD_CHANGED}" if that user has another one by now.'
    )

    def handle(self, *args: Any, **options: Any) -> None:
        call_command("migrate", verbosity=0)
        collect_static_files()
        password = os.environ["TARE_DEMO_PASSWORD"]
        first = {"role": Role.SITE_ADMINISTRATOR, "password": make_password(password)}
        user = audit.keep(None, User, why=WHY, defaults={}, first=first, username="demo")
        if not user.check_password(password):
            self.stdout.write(PASSWORD_CHANGED)
        Cluster.objects.filter(owner=user, name__in=(LAB, THIS_MACHINE)).update(
            retry_at=timezone.now() + LONGEST_START,
            preparing="Starting the cluster of this machine",
            preparing_percent=None,
        )


def collect_static_files() -> None:
    """Collect static files if they have changed; demos of one checkout do so one at a time."""
    root = Path(settings.STATIC_ROOT)
    root.mkdir(parents=True, exist_ok=True)
    directory = os.open(root, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        if _has_newer_static_files(root / "staticfiles.json"):
            call_command("collectstatic", interactive=False, verbosity=0)
    finally:
        os.close(directory)


def _has_newer_static_files(manifest: Path) -> bool:
    """Return whether files have changed since the manifest was written, or there is none."""
    if not manifest.exists():
        return True
    collected = manifest.stat().st_mtime
    return any(path.stat().st_mtime > collected for path in STATIC_FILES.rglob("*"))
