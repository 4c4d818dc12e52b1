"""Requests that nobody goes on with: transfers that fell silent, visits that nobody has begun."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.urls import reverse

from experiments.health.stuck_kinds import Kind, Row
from experiments.models import (
    CheckReport,
    ConnectionTest,
    HostKey,
    ImageImport,
    RunFile,
    StagedImage,
)
from experiments.models.images import SILENCE

LONGEST_WAIT = timedelta(minutes=1)  # until somebody begins what a person has asked for


def list_silent_transfers(now: datetime) -> list[Kind]:
    """Return the transfers of images and files that fell silent."""
    silent = now - SILENCE
    advice = "The worker of the queue bulk that had it has died: the next free one takes it up."
    images = StagedImage.objects.to_be_sent().filter(sending_at__lt=silent)
    imports = ImageImport.objects.filter(
        state=ImageImport.State.UNDER_WAY, seen_at__lt=silent
    ).exclude(kind__in=ImageImport.BUILT)
    copies = RunFile.objects.to_be_copied().filter(seen_at__lt=silent)
    return [
        Kind(
            "Images whose sending fell silent",
            advice,
            images.select_related("image", "cluster")
            .only("sending_at", "image__reference", "cluster__name")
            .order_by("sending_at", "pk"),
            lambda row: Row(
                f"{row.image} to {row.cluster}",
                reverse("image", args=[row.image_id]),
                row.sending_at,
            ),
        ),
        Kind(
            "Image imports that fell silent",
            advice,
            imports.only("reference", "seen_at", "kind").order_by("seen_at", "pk"),
            lambda row: Row(
                str(row.reference) or f"import {row.pk}", reverse("catalogue"), row.seen_at
            ),
        ),
        Kind(
            "Copies of files of runs that fell silent",
            advice,
            copies.select_related("run").only("path", "seen_at", "run__uid").order_by("seen_at"),
            lambda row: Row(row.path, reverse("run", args=[row.run.uid]), row.seen_at),
        ),
    ]


def list_unvisited(now: datetime) -> list[Kind]:
    """Return the checks, host keys and connection tests that a person waits for."""
    kinds = ((CheckReport, "Checks"), (HostKey, "Host keys"), (ConnectionTest, "Connection tests"))
    return [
        Kind(
            f"{name} requested and not begun yet",
            "A worker begins them within seconds; the clock asks again for ten minutes.",
            model._default_manager.filter(
                began_at=None, ended_at=None, requested_at__lt=now - LONGEST_WAIT
            )
            .select_related("cluster")
            .only("requested_at", "cluster__name")
            .order_by("requested_at"),
            lambda row: Row(
                str(row.cluster), reverse("cluster", args=[row.cluster_id]), row.requested_at
            ),
        )
        for model, name in kinds
    ]
