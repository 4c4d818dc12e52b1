"""Pages on image imports: request, cancel and dismiss them."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods, require_POST
from django_htmx.http import HttpResponseClientRedirect

from dashboard.access.rights import require_maker_of
from dashboard.images.image_forms import IMPORT_FORMS, UploadForm
from dashboard.typed_requests import Request, read_length
from dashboard.uploads import (
    ImageUpload,
    explain_no_room,
    explain_too_large,
    get_image_refusal,
    judges_large_requests,
)
from experiments.images import image_imports
from experiments.images.staging import NotDone
from experiments.models import Image, ImageImport


# Django's check of the token reads the whole request: first comes where to, and whether it fits.
@judges_large_requests
@csrf_exempt
@require_maker_of(Image)
@require_http_methods(["GET", "HEAD", "POST"])
def new(request: Request) -> HttpResponse:
    """Show the ways to import an image, on one page."""
    if request.method != "POST":
        return _page(request)
    if problem := explain_no_room(read_length(request)):
        form = UploadForm({}, user=request.user, refused=problem)
        form.is_valid()
        answer = _page(request, form)
        answer.status_code = 200 if request.htmx else 413  # htmx shows nothing of a 413
        return answer
    request.upload_handlers = [ImageUpload(request)]
    return _ask(request)


@csrf_protect
def _ask(request: Request) -> HttpResponse:
    way = IMPORT_FORMS.get(request.POST.get("way", ""))
    if way is None:
        return _page(request)
    upload_options = {"refused": get_image_refusal(request)} if way is UploadForm else {}
    form = way(request.POST, request.FILES, user=request.user, **upload_options)
    image_import = form.request_import_if_valid()
    if image_import is None:
        return _page(request, form)
    messages.success(request, f"{image_import} is on its way into the catalogue.")
    return HttpResponseClientRedirect("/catalogue/") if request.htmx else redirect("catalogue")


@require_POST
def cancel(request: Request, pk: int) -> HttpResponse:
    """Cancel an image import that is under way."""
    row = get_object_or_404(ImageImport.objects.listed_for(request.user), pk=pk)
    try:
        image_imports.cancel(row, request.user)
    except NotDone as refusal:
        messages.error(request, str(refusal))
    return redirect("catalogue")


@require_POST
def dismiss(request: Request, pk: int) -> HttpResponse:
    """Take an image import that is over off the list: what came of it has been read."""
    row = get_object_or_404(ImageImport.objects.listed_for(request.user), pk=pk)
    if row.is_over:
        ImageImport.objects.filter(pk=pk).update(dismissed_at=timezone.now())
    return redirect("catalogue")


def _page(request: Request, form: Any = None) -> HttpResponse:
    """All ways, one of them with what was wrong; to htmx that one alone."""
    if request.htmx and form is not None:
        return render(request, "images/add_form.html", _of(form))
    ways = {name: kind(user=request.user) for name, kind in IMPORT_FORMS.items()}
    if form is not None:
        ways[form.way] = form
    context = {"ways": [_of(each) for each in ways.values()]}
    return render(request, "images/new.html", context)


def _of(form: Any) -> dict[str, Any]:
    return {"form": form, "too_large": explain_too_large()}
