"""Public keys by which images of a registry are known to be signed."""

from __future__ import annotations

from django.core.validators import RegexValidator
from django.db import models

is_prefix = RegexValidator(
    r"^[a-z0-9.-]+(:[0-9]{1,5})?(/[a-z0-9._-]+)*$",
    "A registry, or a part of it, in small letters: registry.example.org/group",
)


class TrustedKey(models.Model):
    """A public key of cosign, and the repositories whose images it signs."""

    name = models.CharField(max_length=100, unique=True)
    prefix = models.CharField(
        "registry or repository",
        max_length=300,
        validators=[is_prefix],
        help_text="registry.example.org, registry.example.org/group, or one repository whole. "
        "Docker Hub is docker.io.",
    )
    pem = models.TextField(
        "public key",
        max_length=10_000,
        help_text="The content of cosign.pub: an ECDSA key of the curve P-256 in PEM.",
    )
    fingerprint = models.CharField(
        max_length=64, editable=False, help_text="The sha256 of the key."
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["prefix", "name"]

    def __str__(self) -> str:
        return self.name

    def covers(self, repository: str) -> bool:
        """Return whether the key is for this repository, `host/group/name`."""
        return f"{repository.lower()}/".startswith(f"{self.prefix}/")
