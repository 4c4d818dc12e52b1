"""The page that makes an experiment of a bundle that another Tare has written."""

from __future__ import annotations

import logging
from pathlib import PurePosixPath
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from dashboard.access.rights import require_maker_of
from dashboard.form_styles import Styled
from dashboard.typed_requests import Request
from dashboard.uploads import was_too_large
from experiments.imports import LIMITS, ImportProblem
from experiments.imports.imported_bundles import DATABASE_AWAY, LOST, BundleKnown, Imported
from experiments.imports.uploaded_bundles import import_uploaded_bundle
from experiments.models import Experiment, User

logger = logging.getLogger(__name__)
MEGABYTES = LIMITS.archive_bytes // 1_000_000
TOO_LARGE = (
    f"The file is larger than {MEGABYTES} MB, the most that this page takes. An administrator can "
    "import it by manage.py import_bundle."
)


class BundleForm(Styled, forms.Form):
    """The form of a bundle: what it holds decides all but who may view it."""

    bundle = forms.FileField(
        label="Bundle",
        help_text="The zip file that Export gives on the page of an experiment of another Tare. "
        f"At most {MEGABYTES} MB.",
    )
    visibility = forms.ChoiceField(
        label="Visibility",
        choices=[choice for choice in Experiment.Visibility.choices if choice[0] != "groups"],
        initial=Experiment.Visibility.PRIVATE,
    )

    def __init__(self, *args: Any, too_large: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if too_large:
            self.fields["bundle"].error_messages["required"] = TOO_LARGE

    def store(self, owner: User) -> Imported:
        """Store the bundle as an experiment. Raises ImportProblem, with nothing stored."""
        uploaded: Any = self.cleaned_data["bundle"]
        return import_uploaded_bundle(
            uploaded.chunks(),
            owner,
            file_name=PurePosixPath(uploaded.name or "a bundle").name,
            visibility=self.cleaned_data["visibility"],
        )


@require_maker_of(Experiment)
@require_http_methods(["GET", "HEAD", "POST"])
def bundle(request: Request) -> HttpResponse:
    """Show the form, and store an uploaded bundle once all of it was checked."""
    if request.method != "POST":
        return render(request, "imports/bundle.html", {"form": BundleForm()})
    form = BundleForm(request.POST, request.FILES, too_large=was_too_large(request))
    context: dict[str, Any] = {"form": form, "refused": "Not imported"}
    if form.is_valid():
        try:
            imported = form.store(request.user)
        except BundleKnown as known:
            visible = Experiment.objects.visible_to(request.user)
            context["known"] = visible.filter(pk=known.experiment.pk).first()
            context["is_known"] = True
        except ImportProblem as problem:
            form.add_error("bundle", f"{problem} Nothing was imported.")
        except DATABASE_AWAY:
            logger.exception("The database was lost while a bundle was imported.")
            form.add_error("bundle", LOST)
        else:
            messages.success(request, "Imported. All check sums and numbers agree.")
            for difference in imported.differences:
                messages.warning(request, difference)
            return redirect(imported.experiment)
    return render(request, "imports/bundle.html", context)
