from __future__ import annotations

from django.contrib.auth.models import AbstractUser


class User(AbstractUser):
    """A person. A model of our own from the first migration on, so that it can grow columns."""
