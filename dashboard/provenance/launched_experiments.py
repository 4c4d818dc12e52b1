"""Experiments of which there is something to show: no drafts."""

from __future__ import annotations

from django.http import Http404

from dashboard.access.rights import get_readable
from dashboard.typed_requests import OpenRequest
from experiments.models import Experiment


def get_launched(request: OpenRequest, pk: int) -> Experiment:
    """Return the experiment; Http404 if it is hidden from the reader, or a draft."""
    experiment = get_readable(request, pk)
    if experiment.is_draft:
        raise Http404("It has not been launched: there are no numbers yet.")
    return experiment
