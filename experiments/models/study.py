"""A study: several experiments, usually on several clusters, that answer one question."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.urls import reverse

from experiments.models.experiment import Experiment
from experiments.models.visibility import SharedInside, SharedQuerySet


class Study(SharedInside):
    """What several experiments have in common: a name, a question, a page.

    The experiments stay what they are, and their own. One may be in several studies.
    """

    MOST_EXPERIMENTS, LONGEST_NAME, LONGEST_NOTES = 50, 200, 10_000

    name = models.CharField(max_length=LONGEST_NAME)
    question = models.CharField(max_length=300, blank=True)
    notes = models.TextField(max_length=LONGEST_NOTES, blank=True)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="studies"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    experiments = models.ManyToManyField(
        Experiment, through="StudyExperiment", related_name="studies", editable=False
    )
    text = models.TextField(
        blank=True, editable=False, help_text="The file that it was made of, with its comments."
    )
    described = models.CharField(
        max_length=64,
        blank=True,
        editable=False,
        help_text="The hash of the definition then: as long as it is the same, exporting gives "
        "the text back.",
    )

    objects = SharedQuerySet["Study"].as_manager()

    class Meta:
        ordering = ["-created_at"]
        verbose_name_plural = "studies"

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("study", args=[self.pk])


class StudyExperiment(models.Model):
    """That an experiment is in a study, and at which place."""

    study = models.ForeignKey(Study, on_delete=models.CASCADE, related_name="members")
    experiment = models.ForeignKey(
        Experiment, on_delete=models.CASCADE, related_name="study_memberships"
    )
    place = models.PositiveIntegerField(help_text="From 1; those that were put in later come last.")

    class Meta:
        ordering = ["study", "place", "pk"]
        constraints = [
            models.UniqueConstraint(fields=["study", "experiment"], name="once_in_a_study"),
        ]

    def __str__(self) -> str:
        return f"{self.experiment} in {self.study}"
