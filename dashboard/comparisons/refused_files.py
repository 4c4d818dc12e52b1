"""Refusals of files of lists whose address is not understood: 400, in the page's sentences."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from dashboard.problem_documents import CONTENT_TYPE, describe_problem

NOTHING_SENT = (
    "Nothing was sent: the file would have other rows or columns than its address asks for."
)
TYPES = ("text/plain", "text/html", CONTENT_TYPE, "application/json")


def refuse_file(request: HttpRequest, sentences: Sequence[str]) -> HttpResponse:
    """Return 400 with the sentences: a page for browsers, JSON where that is accepted, or text."""
    status = HTTPStatus.BAD_REQUEST
    accepted = request.get_preferred_type(TYPES)
    if accepted == "text/html":
        context = {"sentences": sentences, "reason": NOTHING_SENT}
        return render(request, "comparisons/refused_file.html", context, status=status)
    if accepted in (CONTENT_TYPE, "application/json"):
        problems = [{"field": "query", "message": sentence} for sentence in sentences]
        document = describe_problem(status, NOTHING_SENT, problems)
        return JsonResponse(document, status=status, content_type=CONTENT_TYPE)
    text = "\n".join([NOTHING_SENT, *sentences, ""])
    return HttpResponse(text, status=status, content_type="text/plain; charset=utf-8")
