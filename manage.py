#!/usr/bin/env python3
"""Tare's command line: `manage.py help` lists the commands."""

import os
import sys

# These read files and compute, or only print: they need no database and no site's settings.
NEED_NO_SITE = {"calibrate", "compare_table", "new_credential_key", "help", "--help", "-h"}


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    try:
        from django.core.exceptions import ImproperlyConfigured
        from django.core.management import execute_from_command_line
    except ModuleNotFoundError:
        sys.exit(
            "Tare's packages are not installed: run `make setup`, then .venv/bin/python manage.py"
        )
    if not sys.argv[1:] or sys.argv[1] in NEED_NO_SITE:
        from dashboard.environment import stand_in_for_a_site

        stand_in_for_a_site()
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as problem:
        sys.exit(f"manage.py: {problem}")


if __name__ == "__main__":
    main()
