"""Write the references to docs/."""

from __future__ import annotations

import os

import django

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    for name, value in (("SECRET_KEY", "x"), ("DATABASE_URL", "postgresql:///x")):
        os.environ.setdefault(name, value)
    django.setup()

    from tests.references.files import REFERENCES

    for path, write in REFERENCES.items():
        path.write_text(write(), encoding="utf-8")
        print(path.name)
