"""The bundle of an experiment, sent while it is written."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe

from dashboard.access.hidden_names import find_anonymity
from dashboard.access.rights import by_link, get_readable
from dashboard.access.visitors import Visitor
from dashboard.comparisons.bundle_files import make_bundle
from dashboard.comparisons.export_limit import limit_exports
from dashboard.comparisons.safe_files import make_file_name
from dashboard.typed_requests import OpenRequest, is_head
from experiments.bundles import NoBundle, require_ended
from experiments.models import Experiment
from experiments.models.citation import find_citation

NAMES_STAND_IN_IT = (
    "This link hides the names of people and machines. A bundle has them, and its check sums would "
    "not hold without them: ask the owner of the experiment for it."
)


def is_offered(user: Any, *, is_alive: bool) -> bool:
    """Return whether this reader can have a bundle of an experiment that is readable for them."""
    return not is_alive and find_anonymity(user) is None


def has_authors(user: Any, experiment: Experiment) -> bool:
    """Return whether authors of an experiment are stated, and this reader may know them."""
    citation = find_citation(experiment)
    return bool(citation and citation.authors) and find_anonymity(user) is None


@by_link
@require_safe
@limit_exports
def bundle(request: OpenRequest, pk: int) -> HttpResponseBase:
    """Send the experiment as a bundle that checks itself; 409 with the reason where it has none."""
    experiment = get_readable(request, pk)
    if find_anonymity(request.user):
        return _refuse(NAMES_STAND_IN_IT, HTTPStatus.FORBIDDEN)
    pieces: Iterator[bytes] = iter(())
    try:
        if is_head(request):  # a figure is drawn before the first piece
            require_ended(experiment)
        else:
            pieces = make_bundle(experiment, is_visitor=isinstance(request.user, Visitor))
    except NoBundle as error:
        return _refuse(str(error), HTTPStatus.CONFLICT)
    response = StreamingHttpResponse(filter(None, pieces), content_type="application/zip")
    name = make_file_name(experiment, "bundle", ".zip")
    response["Content-Disposition"] = content_disposition_header(True, name)
    return response


def _refuse(why: str, status: HTTPStatus) -> HttpResponse:
    text = f"The bundle was not made. {why}\n"
    return HttpResponse(text, content_type="text/plain; charset=utf-8", status=status)
