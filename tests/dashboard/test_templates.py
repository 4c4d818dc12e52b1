"""Templates stay readable: short lines, and frames that are written once, in template tags."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.conf import settings
from django.template import Context, Template
from django.test import RequestFactory
from django.utils import timezone

from experiments.models import Cluster, ImageImport, Job, Operation, Run

TEMPLATES: Path = settings.BASE_DIR / "templates"
LONGEST_LINE = 160


def rendered(source: str, **context: Any) -> str:
    """Return what a template with the tags of all libraries writes, its white space collapsed."""
    loads = "{% load comparisons frames states tare %}"
    request = RequestFactory().get("/page/?tab=runs&page=2")
    values = Context({"request": request, "csrf_token": "T", **context})
    return " ".join(Template(loads + source).render(values).split())


def text(source: str, **context: Any) -> str:
    soup = BeautifulSoup(rendered(source, **context), "html.parser")
    return " ".join(soup.get_text().split())


def test_no_line_of_a_template_is_longer_than_a_screen() -> None:
    long_lines = [
        f"{path.relative_to(TEMPLATES)}:{number} has {len(line)} characters"
        for path in sorted(TEMPLATES.rglob("*.html"))
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if len(line) > LONGEST_LINE
    ]
    assert not long_lines


@pytest.mark.parametrize("name", ["margin", "percent", "provable", "level"])
def test_no_line_breaks_between_a_number_and_its_percent_sign(name: str) -> None:
    template = Template("{% load numbers %}{{ value|" + name + " }}")
    written = template.render(Context({"value": 0.02}))
    assert written.endswith("\N{NO-BREAK SPACE}%")
    assert " %" not in written
    sentence = Template("{% load numbers %}{{ value|unbroken }}")
    assert sentence.render(Context({"value": "within 2 % <b>"})) == (
        "within 2\N{NO-BREAK SPACE}% &lt;b&gt;"
    )


def test_a_panel_has_a_heading_or_a_label() -> None:
    assert rendered('{% panel "Events" css="flush" id="events" %}x{% endpanel %}') == (
        '<section class="panel flush" id="events"><h2>Events</h2>x</section>'
    )
    assert rendered('{% panel label="Events" %}x{% endpanel %}') == (
        '<section class="panel" aria-label="Events">x</section>'
    )


@pytest.mark.parametrize(
    ("count", "size"), [(0, ""), (1, " 1 table"), (3, " 3 tables")], ids=["none", "one", "more"]
)
def test_a_folded_panel_says_how_much_is_in_it(count: int, size: str) -> None:
    page = rendered(
        '{% panel "A" folded=True count=count noun="table" %}x{% endpanel %}', count=count
    )
    soup = BeautifulSoup(page, "html.parser")
    assert soup.select_one("details.panel.more > summary > h2")
    assert soup.summary is not None
    assert soup.summary.get_text() == "A" + size


def test_what_is_put_into_a_frame_is_escaped_once() -> None:
    page = rendered("{% panel heading id=heading %}{{ heading }}{% endpanel %}", heading='<"&')
    escaped = "&lt;&quot;&amp;"
    assert page == f'<section class="panel" id="{escaped}"><h2>{escaped}</h2>{escaped}</section>'


def test_a_table_scrolls_in_its_own_box_which_the_keyboard_reaches_if_it_is_tall() -> None:
    assert rendered('{% table "dense" %}x{% endtable %}') == (
        '<div class="scroll"><table class="table dense">x</table></div>'
    )
    assert rendered('{% table box="tall" label="L" %}x{% endtable %}') == (
        '<div class="scroll tall" tabindex="0"><table class="table" aria-label="L">x</table></div>'
    )


def test_a_button_that_posts_brings_its_token_and_hidden_fields() -> None:
    soup = BeautifulSoup(
        rendered('{% post_button "Try" "pause_try" 7 css="btn-danger" experiment=3 %}'),
        "html.parser",
    )
    form = soup.form
    assert form is not None
    assert (form["method"], form["action"]) == ("post", "/pauses/7/try/")
    fields = {field["name"]: field["value"] for field in form.select("input[type=hidden]")}
    assert fields == {"csrfmiddlewaretoken": "T", "experiment": "3"}
    assert form.select_one("button[type=submit].btn.btn-danger")


def test_a_button_to_confirm_opens_what_is_to_be_read_first() -> None:
    soup = BeautifulSoup(rendered('{% confirm "Delete" %}<p>x</p>{% endconfirm %}'), "html.parser")
    assert soup.select_one("details.menu > summary.btn-danger")
    assert soup.select_one("details.menu > .confirm > p")


def test_a_part_that_refreshes_itself_asks_for_its_own_page() -> None:
    assert rendered("<div{% refreshed_every 2 %}>").startswith('<div hx-get="/page/" ')
    assert 'hx-get="/other/"' in rendered('<div{% refreshed_every 2 "/other/" %}>')


def test_a_tab_begins_on_its_first_page_and_is_marked_when_it_is_open() -> None:
    assert rendered('{% details_tab "runs" "Runs" %}', tab="runs") == (
        '<a href="?tab=runs#details" aria-current="page">Runs</a>'
    )
    assert rendered('{% details_tab "jobs" "Jobs" %}', tab="runs") == (
        '<a href="?tab=jobs#details">Jobs</a>'
    )


def test_the_rest_of_a_list_is_counted() -> None:
    assert rendered("{{ v|beyond:3 }} {{ w|beyond:3 }}", v="abcde", w="ab") == "2 0"


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"recorded": True}, "from logs"),
        ({"enabled": False}, "off"),
        ({"preparing": "images"}, "being set up"),
        ({"preparing": "images", "last_seen_at": 300}, "being set up, last reached 5 min ago"),
        ({}, "never reached"),
        ({"last_seen_at": 0}, "reachable, 0 s ago"),
        ({"last_seen_at": 86400}, "last reached 1 d ago"),
        ({"last_error": "no", "last_error_kind": "refused"}, "refused, never reached"),
        (
            {"last_error": "no", "last_seen_at": 300},
            "not reachable, last reached 5 min ago",
        ),
    ],
)
@pytest.mark.django_db
def test_the_state_of_a_cluster_says_when_it_was_reached_unless_it_is_short(
    state: dict[str, Any], words: str
) -> None:
    if "last_seen_at" in state:
        state = state | {"last_seen_at": timezone.now() - timedelta(seconds=state["last_seen_at"])}
    cluster = Cluster(pk=1, name="c", **state)
    cluster._prefetched_objects_cache = {"pauses": []}
    assert text("{% cluster_state cluster %}", cluster=cluster) == words
    short = words if words.startswith("last reached") else words.partition(",")[0]
    assert text("{% cluster_state cluster short=True %}", cluster=cluster) == short


def test_a_run_that_is_finished_waits_for_the_rest_of_its_job() -> None:
    job = Job(state=Job.State.RUNNING)
    finished = Run(job=job, state=Run.State.RUNNING, ended_at=timezone.now(), exit_code=1)
    assert text("{% run_state run %}", run=finished).endswith("waiting for the rest of its job")
    assert "with exit code 1" in text("{% run_state run %}", run=finished)
    done = Run(job=job, state=Run.State.SUCCEEDED)
    assert text("{% run_state run %}", run=done) == "succeeded"


def test_an_operation_says_what_it_waits_for() -> None:
    cluster = Cluster(name="alpha", max_live_jobs=1)
    row = Operation(cluster=cluster, kind=Operation.Kind.STAGE, state=Operation.State.PLANNED)
    assert text("{{ row|waits_for }}", row=row) == (
        "waits for the image’s archive to be there, and its turn on alpha, which takes at most "
        "1 job of Tare’s at once"
    )
    row.kind = Operation.Kind.VERIFY
    cluster.max_live_jobs = 4
    assert text("{{ row|waits_for }}", row=row) == (
        "waits for its turn on alpha, which takes at most 4 jobs of Tare’s at once"
    )
    row.state, row.scheduler_state = Operation.State.QUEUED, "Priority"
    assert row.scheduler_words
    assert text("{{ row|waits_for }}", row=row) == f"in the queue of alpha: {row.scheduler_words}"
    row.state = Operation.State.RUNNING
    assert text("{{ row|waits_for }}", row=row) == ""


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"state": "waiting"}, "A worker takes it up in a moment; asked for 0 s ago."),
        ({"state": "under way", "doing": "layer 2"}, "layer 2"),
        ({"state": "under way", "doing": "layer 2", "done_bytes": 10}, "layer 2: 10 B"),
        ({"state": "under way", "done_bytes": 10, "total_bytes": 20}, "10 B of 20 B"),
    ],
)
def test_an_image_import_says_what_it_is_doing_and_how_much_is_there(
    fields: dict[str, Any], words: str
) -> None:
    row = ImageImport(requested_at=timezone.now(), **fields)
    assert text("{{ row|import_progress }}", row=row) == words
