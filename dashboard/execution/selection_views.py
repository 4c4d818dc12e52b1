"""What people do with the rows of a list that they have selected, or with all of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import HttpResponseBase, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from dashboard.access.rights import changeable_row
from dashboard.comparisons.export_limit import send_within_limit
from dashboard.comparisons.refused_files import refuse_file
from dashboard.execution.experiment_list_views import send_experiments
from dashboard.execution.experiment_listing import read_experiment_list
from dashboard.execution.run_list_views import send_runs
from dashboard.execution.run_listing import RunList, read_run_list
from dashboard.lists import MOST_COMPARED, PICKED
from dashboard.typed_requests import Request, parse_whole_number, read_posted_text
from experiments.execution import bulk_changes, labels
from experiments.execution.bulk_changes import Outcome
from experiments.models import Experiment, Study
from experiments.studies.study_members import NotPutIn, put_in

LONGEST_UID = 100
LONGEST_STATE = 12_300
"""Characters of a list's state: servers take addresses of 4,100, whose signs may become three."""


@require_POST
def selected_experiments(request: Request) -> HttpResponseBase:
    """Do what was chosen with the selected experiments, or with all that the list shows."""
    query = _read_query(request)
    takes_all, is_export = "all" in request.POST, request.POST.get("action") == "export"
    asked = read_experiment_list(request, query)
    left_out = asked.left_out if takes_all else []
    if is_export and (problems := [*left_out, *asked.other_problems]):
        return refuse_file(request, problems)
    if left_out:
        return _refuse_all(request, left_out, "experiments", query)
    keys = asked.list_keys() if takes_all else _read_keys(request)
    if request.POST.get("action") in ("export", "compare"):
        keys = _keep_visible(request, keys)
        if keys and is_export:
            return send_within_limit(request, lambda: send_experiments(keys, asked))
    return _act(request, keys, f"{reverse('experiments')}?{query.urlencode()}")


@require_POST
def selected_runs(request: Request) -> HttpResponseBase:
    """Do what was chosen with the selected runs, or with their experiments."""
    run_list = _read_runs(request)
    if request.POST.get("action") == "export" and run_list.problems:
        return refuse_file(request, run_list.problems)
    if run_list.left_out:
        return _refuse_all(request, run_list.left_out, "runs", run_list.query)
    runs = run_list.runs.rows.order_by()
    if request.POST.get("action") == "export" and runs.exists():
        return send_within_limit(request, lambda: send_runs(run_list))
    if request.POST.get("action") == "compare":
        two = list(runs.order_by("pk").values_list("uid", flat=True)[:3])
        if len(two) == 2:
            return redirect("two_runs", *two)
    experiments = Experiment.objects.visible_to(request.user).filter(
        pk__in=runs.values("experiment")
    )
    keys = list(experiments.order_by("pk").values_list("pk", flat=True))
    return _act(request, keys, f"{reverse('runs')}?{_read_query(request).urlencode()}")


def _read_query(request: Request) -> QueryDict:
    """Return the state of the list in which something was selected, without its page.

    A NUL, which no address may have, is replaced after all is decoded.
    """
    text = read_posted_text(request, "query")
    if len(text) > LONGEST_STATE:
        raise BadRequest("No list has so long an address.")
    query = QueryDict(mutable=True)
    for name, values in QueryDict(text).lists():
        if name != "page":
            kept = [value.replace("\x00", "\ufffd") for value in values]
            query.setlist(name.replace("\x00", "\ufffd"), kept)
    return query


def _refuse_all(
    request: Request, left_out: Sequence[str], page: str, query: QueryDict
) -> HttpResponseBase:
    """Do nothing to all that match, where a filter is not understood: it would be done to more."""
    messages.error(request, f"Nothing was done to all that match. {' '.join(left_out)}")
    return redirect(f"{reverse(page)}?{query.urlencode()}")


def _read_keys(request: Request) -> list[int]:
    keys = (parse_whole_number(text) for text in request.POST.getlist(PICKED))
    return [*dict.fromkeys(key for key in keys if key is not None)]


def _keep_visible(request: Request, keys: Sequence[int]) -> list[int]:
    """Return the keys of experiments that the reader may see, in their order."""
    visible = Experiment.objects.visible_to(request.user).filter(pk__in=keys)
    known = set(visible.values_list("pk", flat=True))
    return [key for key in keys if key in known]


def _read_runs(request: Request) -> RunList:
    run_list = read_run_list(request, _read_query(request))
    if "all" in request.POST:
        return run_list
    texts = (text.replace("\x00", "") for text in request.POST.getlist(PICKED))
    picked = frozenset(text for text in texts if len(text) <= LONGEST_UID)
    # Those that fit the filters no longer were selected all the same.
    query = QueryDict("archived=all")
    problems = [text for text in run_list.problems if text not in run_list.left_out]
    return replace(
        run_list, conditions=[], problems=problems, left_out=[], query=query, picked=picked
    )


def _act(request: Request, keys: Sequence[int], back: str) -> HttpResponseBase:
    """Do what was chosen with these experiments, and say to how many it was done."""
    action = request.POST.get("action", "")
    if not keys:
        messages.error(request, "Nothing was done: nothing was selected.")
        return redirect(back)
    if action == "compare":
        return _compare(request, keys, back)
    if action == "study":
        return _put_into_study(request, keys, back)
    if action in ("tag", "untag"):
        return _tag(request, keys, back, is_added=action == "tag")
    if action == "archive":
        outcome = bulk_changes.archive(keys, request.user)
        _report(request, outcome.describe("Archived", "already archived"), outcome)
    elif action == "restore":
        outcome = bulk_changes.restore(keys, request.user)
        _report(request, outcome.describe("Restored", "not archived"), outcome)
    elif action == "cancel":
        outcome = bulk_changes.cancel(keys, request.user)
        _report(request, outcome.describe("Cancelled", "with nothing left to cancel"), outcome)
    else:
        messages.error(request, "Nothing was done: no action was chosen.")
    return redirect(back)


def _tag(request: Request, keys: Sequence[int], back: str, *, is_added: bool) -> HttpResponseBase:
    try:
        tags = labels.parse_tags(read_posted_text(request, "tag"))
    except ValueError as error:
        messages.error(request, f"Nothing was tagged: {error}")
        return redirect(back)
    if not tags:
        messages.error(request, "Nothing was tagged: write a tag first.")
        return redirect(back)
    if is_added:
        outcome = bulk_changes.change_labels(
            keys, request.user, lambda rows, by: labels.add_tags(rows, by, tags)
        )
        unchanged = f"already tagged, or with {Experiment.MOST_TAGS} tags"
        _report(request, outcome.describe("Tagged", unchanged), outcome)
    else:
        outcome = bulk_changes.change_labels(
            keys, request.user, lambda rows, by: labels.remove_tags(rows, by, tags)
        )
        _report(request, outcome.describe("Removed the tag from", "without it"), outcome)
    return redirect(back)


def _put_into_study(request: Request, keys: Sequence[int], back: str) -> HttpResponseBase:
    """Put experiments into the chosen study, or show the form of a new one."""
    if len(keys) > Study.MOST_EXPERIMENTS:
        messages.error(request, f"A study has at most {Study.MOST_EXPERIMENTS} experiments.")
        return redirect(back)
    chosen = parse_whole_number(request.POST.get("study"))
    if chosen is None:
        query = "&".join(f"{PICKED}={key}" for key in keys)
        return redirect(f"{reverse('study_new')}?{query}")
    study = changeable_row(request, Study, chosen)
    try:
        count = put_in(study, keys, request.user)
    except NotPutIn as reason:
        messages.error(request, f"Nothing was put in: {reason}")
        return redirect(back)
    messages.success(request, f"Put {count} experiment{'' if count == 1 else 's'} into the study.")
    return redirect(study)


def _compare(request: Request, keys: Sequence[int], back: str) -> HttpResponseBase:
    if len(keys) == 1:
        return redirect("comparison", keys[0])
    if len(keys) == 2:
        return redirect("two_experiments", *keys)
    if len(keys) > MOST_COMPARED:
        messages.error(request, f"Select at most {MOST_COMPARED} experiments to compare.")
        return redirect(back)
    query = "&".join(f"{PICKED}={key}" for key in keys)
    return redirect(f"{reverse('compare')}?{query}")


def _report(request: Request, text: str, outcome: Outcome) -> None:
    has_problem = outcome.forbidden or outcome.missing or outcome.failed
    (messages.warning if has_problem else messages.success)(request, text)
