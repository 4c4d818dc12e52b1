"""The package of the client, for pip: the site is the only place that a researcher has to know."""

from __future__ import annotations

import io
from functools import cache

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe
from flit_core.wheel import WheelBuilder

from dashboard.typed_requests import OpenRequest


@cache
def build_wheel() -> tuple[str, bytes]:
    """Return the name and the content of the client's wheel, built once a process (0.1 s)."""
    file = io.BytesIO()
    project = settings.BASE_DIR / "clients" / "python" / "pyproject.toml"
    builder = WheelBuilder.from_ini_path(project, file)
    builder.build()
    return builder.wheel_filename, file.getvalue()


@login_not_required
@require_safe
def packages(request: OpenRequest) -> HttpResponse:
    """List the client's package to everybody, as `pip install --find-links` reads lists."""
    context = {
        "name": build_wheel()[0],
        "site": request.build_absolute_uri("/").rstrip("/"),
        "address": request.build_absolute_uri(reverse("client_packages")),
    }
    return render(request, "docs/client_packages.html", context)


@login_not_required
@require_safe
def package(request: OpenRequest, name: str) -> HttpResponse:
    """Send the client's package. Its program is public, and holds nothing of the site."""
    wheel_name, content = build_wheel()
    if name != wheel_name:
        raise Http404
    headers = {"Content-Disposition": content_disposition_header(True, wheel_name) or ""}
    return HttpResponse(content, content_type="application/octet-stream", headers=headers)
