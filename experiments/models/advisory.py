"""Known vulnerabilities of packages, as a source of advisories listed them on a day."""

from __future__ import annotations

from django.db import models


class Advisory(models.Model):
    """A known vulnerability of a Python package. All rows are of one source, read by a command."""

    package = models.CharField(max_length=200, db_index=True, help_text="As PyPI compares names.")
    identifier = models.CharField(max_length=100)
    affected = models.JSONField(help_text="Version specifiers, any of which an affected one fits.")
    summary = models.TextField()
    source = models.CharField(max_length=200)
    known_on = models.DateField(help_text="The day of the source: what came later it lacks.")

    class Meta:
        ordering = ["package", "identifier"]
        verbose_name_plural = "advisories"

    def __str__(self) -> str:
        return f"{self.identifier}: {self.package}"
