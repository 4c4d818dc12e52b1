"""The pages of recurring experiments: to make one, its charts, its files, and to stop it."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from dashboard.drawings.control_charts import describe_control_charts
from experiments.comparisons import keep_comparison
from experiments.models import (
    AuditEntry,
    Experiment,
    LaunchReason,
    Recurrence,
    RecurringExperiment,
)
from experiments.recurring import note_points, read_history
from experiments.recurring.charted_metrics import MOST_REQUESTED, list_chartable
from tests.dashboard.conftest import People, Site, fetch
from tests.factories import (
    NOON,
    ExperimentFactory,
    LaunchedFactory,
    MeasurementFactory,
    RecurringExperimentFactory,
)

pytestmark = pytest.mark.django_db

RULE = {"every_days": "7", "most_recurrences": "10", "visibility": "members"}


@pytest.fixture
def row(results: Experiment) -> RecurringExperiment:
    """The experiment with results, which recurs and is charted."""
    made: RecurringExperiment = RecurringExperimentFactory(source=results, owner=results.owner)
    keep_comparison(results.pk)
    note_points(results.pk)
    return made


def add_copies(row: RecurringExperiment, count: int, *, last_cost: float = 1.0) -> None:
    """Add recurrences with the points of the first, each a little other; the last costs more."""
    first = row.recurrences.get(number=1)
    for number in range(2, count + 2):
        factor = 1 + 0.001 * ((number * 7) % 5 - 2)
        factor *= last_cost if number == count + 1 else 1
        points = [
            point | {"value": point["value"] * (factor if point["kind"] == "ratio" else 1)}
            for point in first.points
        ]
        Recurrence.objects.create(
            recurring=row,
            number=number,
            experiment=LaunchedFactory(owner=row.owner),
            reason=LaunchReason.TIME,
            launched_at=NOON + timedelta(days=7 * number),
            points=points,
            method=first.method,
        )
    RecurringExperiment.objects.filter(pk=row.pk).update(last_number=count + 1)


class TestMaking:
    """A launched experiment of one's own recurs by a rule."""

    def test_from_the_experiments_page_to_the_first_recurrence(
        self, results: Experiment, as_owner: Client
    ) -> None:
        address = reverse("recurring_new", args=[results.pk])
        assert f'href="{address}"' in fetch(as_owner, results.get_absolute_url()).decode()
        assert "GPU-hours" in fetch(as_owner, address).decode()
        answer = as_owner.post(address, RULE)
        row = RecurringExperiment.objects.get()
        assert answer["Location"] == row.get_absolute_url()
        assert (row.every_days, row.most_recurrences, row.last_number) == (7, 10, 1)
        assert row.due_at
        assert timedelta(days=6.9) < row.due_at - timezone.now() <= timedelta(days=7)
        assert row.recurrences.get().experiment == results
        assert AuditEntry.objects.filter(kind="recurringexperiment", what="added").exists()
        page = fetch(as_owner, results.get_absolute_url()).decode()
        assert f'href="{row.get_absolute_url()}"' in page

    @pytest.mark.parametrize(
        ("field", "value", "words"),
        [
            ("every_days", "0", "greater than or equal to 1"),
            ("every_days", "1e9", "Enter a whole number"),
            ("most_recurrences", "1", "greater than or equal to 2"),
            ("most_recurrences", "", "required"),
            ("ends_on", "2020-01-01", "This day is over"),
            ("ends_on", "9999-12-31", "within 10 years"),
            ("ends_on", "\x00", "valid date"),
        ],
    )
    def test_a_rule_that_makes_no_sense_is_refused_at_its_field(
        self, results: Experiment, as_owner: Client, field: str, value: str, words: str
    ) -> None:
        answer = as_owner.post(reverse("recurring_new", args=[results.pk]), RULE | {field: value})
        assert answer.status_code == 200
        assert words in answer.content.decode()
        assert not RecurringExperiment.objects.exists()

    def test_a_draft_and_the_experiment_of_another_do_not(
        self, results: Experiment, people: People
    ) -> None:
        draft = ExperimentFactory(owner=people.owner)
        as_owner, as_other = people.client("owner"), people.client("other")
        assert as_owner.post(reverse("recurring_new", args=[draft.pk]), RULE).status_code == 403
        assert as_other.post(reverse("recurring_new", args=[results.pk]), RULE).status_code == 403
        assert not RecurringExperiment.objects.exists()

    def test_a_plan_with_interim_analyses_does_not(
        self, results: Experiment, as_owner: Client
    ) -> None:
        Experiment.objects.filter(pk=results.pk).update(looks=2)
        answer = as_owner.post(reverse("recurring_new", args=[results.pk]), RULE, follow=True)
        assert "A plan with interim analyses does not recur" in answer.content.decode()
        assert not RecurringExperiment.objects.exists()

    def test_a_changed_rule_is_due_by_the_new_one(
        self, row: RecurringExperiment, as_owner: Client
    ) -> None:
        address = reverse("recurring_edit", args=[row.pk])
        as_owner.post(address, RULE | {"every_days": "30"})
        row.refresh_from_db()
        assert row.due_at
        assert row.due_at - timezone.now() > timedelta(days=29)
        as_owner.post(
            address, RULE | {"every_days": "", "ends_on": f"{timezone.now().year + 1}-01-31"}
        )
        row.refresh_from_db()
        assert (row.every_days, row.due_at) == (None, None)
        assert row.ends_at
        assert (row.ends_at.month, row.ends_at.day) == (1, 31)

    def test_fewer_recurrences_than_were_launched_are_refused(
        self, row: RecurringExperiment, as_owner: Client
    ) -> None:
        add_copies(row, 4)
        address = reverse("recurring_edit", args=[row.pk])
        answer = as_owner.post(address, RULE | {"most_recurrences": "3"})
        assert "5 recurrences were launched already" in answer.content.decode()


class TestFurtherMetrics:
    """Other metrics are chosen in the form, and shown one at a time."""

    def test_are_chosen_in_the_form_and_shown_by_their_number(
        self, row: RecurringExperiment, as_owner: Client
    ) -> None:
        edit = reverse("recurring_edit", args=[row.pk])
        form = fetch(as_owner, edit).decode()
        assert 'value="gflops"' in form
        assert 'value="step_time"' not in form
        answer = as_owner.post(edit, RULE | {"charted_metrics": ["gflops", "joy"]})
        assert "joy is not one of the available choices" in answer.content.decode()
        as_owner.post(edit, RULE | {"charted_metrics": ["gflops"]})
        row.refresh_from_db()
        assert row.charted_metrics == ["gflops"]
        for run in row.source.runs.filter(state="succeeded"):
            MeasurementFactory(run=run, metric="gflops", value=900.0, unit="GFLOP/s")
        note_points(row.source_id)
        page = fetch(as_owner, f"{row.get_absolute_url()}?metric=2").decode()
        assert '<option value="2" selected>gflops</option>' in page
        assert "6 charts" in page
        assert "2 metrics" in page
        assert "Over time: " in page
        assert ", gflops. 3 control charts of 1 recurrence." in page
        text = fetch(as_owner, reverse("recurring_csv", args=[row.pk])).decode()
        rows = list(csv.DictReader(io.StringIO(text)))
        assert {line["metric"]: line["decisive"] for line in rows} == {
            "step_time": "True",
            "gflops": "False",
        }

    def test_more_than_five_are_refused(self, row: RecurringExperiment, as_owner: Client) -> None:
        names = list_chartable(row.source)
        assert len(names) > MOST_REQUESTED
        answer = as_owner.post(
            reverse("recurring_edit", args=[row.pk]), RULE | {"charted_metrics": names}
        )
        assert "Choose 5 further metrics at most." in answer.content.decode()

    @pytest.mark.parametrize("metric", ["0", "99", "-1", "x", "1" * 400])
    def test_an_odd_number_shows_the_first(
        self, row: RecurringExperiment, as_owner: Client, metric: str
    ) -> None:
        page = as_owner.get(row.get_absolute_url(), {"metric": metric, "configuration": metric})
        assert page.status_code == 200
        assert 'id="recurrence-1"' in page.content.decode()


class TestThePage:
    """Charts and a table of one configuration, and what happens next."""

    def test_shows_values_limits_and_what_left_them(
        self, row: RecurringExperiment, as_owner: Client
    ) -> None:
        add_copies(row, 9, last_cost=1.2)
        row.recurrences.filter(number=10).update(changes=["GPU driver: 535 → 550"])
        page = fetch(as_owner, row.get_absolute_url()).decode()
        assert "<strong>1.3" in page
        assert "outside</strong>" in page
        assert "Other than in the one before: GPU driver: 535 → 550" in page
        assert "3 charts" in page
        assert re.search(r"at most 1\.0\s% of the recurrences", page)
        assert "The next recurrence is launched at its time." in page
        assert page.count('id="recurrence-') == 10

    def test_values_without_limits_are_not_judged(
        self, row: RecurringExperiment, as_owner: Client
    ) -> None:
        add_copies(row, 2)
        page = fetch(as_owner, row.get_absolute_url()).decode()
        assert "No value is judged yet: limits need 8 values before it." in page
        assert page.count("not judged</span>") == 3
        row.recurrences.filter(number__gt=1).delete()
        add_copies(row, 9)
        page = fetch(as_owner, row.get_absolute_url()).decode()
        assert "No value is judged yet" not in page
        assert page.count("not judged</span>") == 8
        assert re.search(r">22\.\d+ to 22\.\d+ ms<", page), "the unit stands once"

    def test_shows_verdict_and_stamps_and_why_a_value_is_not_judged(
        self, row: RecurringExperiment, as_owner: Client
    ) -> None:
        add_copies(row, 1)
        last = row.recurrences.get(number=2)
        marks = {"verdict": "NOT ATTRIBUTABLE", "stamps": ["TAIL", "NOT AFTER HOLM"]}
        last.points = [point | (marks if point["kind"] == "ratio" else {}) for point in last.points]
        last.save()
        page = fetch(as_owner, row.get_absolute_url()).decode()
        assert "NOT ATTRIBUTABLE; TAIL, NOT SIGNIFICANT AFTER HOLM CORRECTION" in page
        assert "NOT ATTRIBUTABLE: it is not judged." in page
        text = fetch(as_owner, reverse("recurring_csv", args=[row.pk])).decode()
        rows = list(csv.DictReader(io.StringIO(text)))
        assert [line["stamps"] for line in rows if line["verdict"] == "NOT ATTRIBUTABLE"] == [
            "TAIL; NOT AFTER HOLM"
        ]

    def test_says_why_it_was_not_launched(self, row: RecurringExperiment, as_owner: Client) -> None:
        RecurringExperiment.objects.filter(pk=row.pk).update(
            problem="lab is <not> in service.", due_at=NOON
        )
        page = fetch(as_owner, row.get_absolute_url()).decode()
        assert "could not be launched" in page
        assert "lab is &lt;not&gt; in service." in page

    def test_is_paged_and_its_figure_has_all(
        self, row: RecurringExperiment, as_owner: Client
    ) -> None:
        add_copies(row, 60)
        page = fetch(as_owner, row.get_absolute_url()).decode()
        assert page.count('id="recurrence-') == 12
        assert 'href="?page=2"' in page
        last = fetch(as_owner, f"{row.get_absolute_url()}?page=6").decode()
        assert last.count('id="recurrence-') == 1

    def test_shows_one_configuration_of_several(
        self, row: RecurringExperiment, as_owner: Client
    ) -> None:
        first = row.recurrences.get(number=1)
        first.points += [point | {"scale": "2x4"} for point in first.points]
        first.save()
        page = fetch(as_owner, f"{row.get_absolute_url()}?configuration=2").decode()
        assert "6 charts" in page
        assert 'value="2" selected' in page
        for odd in ("0", "99", "-1", "x", "9" * 40):
            fetch(as_owner, f"{row.get_absolute_url()}?configuration={odd}")

    def test_before_anything_has_ended_there_is_a_table_and_no_figure(
        self, results: Experiment, as_owner: Client
    ) -> None:
        row = RecurringExperimentFactory(source=results, owner=results.owner)
        page = fetch(as_owner, row.get_absolute_url()).decode()
        assert "not ended yet" in page
        assert "<figure" not in page
        fetch(as_owner, reverse("recurring_charts_svg", args=[row.pk]), 404)

    def test_is_hidden_where_it_is_private(self, row: RecurringExperiment, people: People) -> None:
        RecurringExperiment.objects.filter(pk=row.pk).update(visibility="private")
        other = people.client("other")
        for name in ("recurring", "recurring_csv", "recurring_json", "recurring_charts_svg"):
            fetch(other, reverse(name, args=[row.pk]), 404)
        assert row.question not in fetch(other, reverse("recurring_list")).decode()
        page = fetch(other, row.source.get_absolute_url()).decode()
        assert row.get_absolute_url() not in page

    def test_others_see_it_and_change_nothing(
        self, row: RecurringExperiment, people: People
    ) -> None:
        other = people.client("other")
        page = fetch(other, row.get_absolute_url()).decode()
        assert "Stop it for good" not in page
        for name in ("recurring_stop", "recurring_launch", "recurring_limits", "recurring_edit"):
            assert other.post(reverse(name, args=[row.pk])).status_code == 403


class TestActions:
    """Launch now, stop, and limits from another recurrence on."""

    def test_stopped_it_is_said_by_whom(self, row: RecurringExperiment, as_owner: Client) -> None:
        as_owner.post(reverse("recurring_stop", args=[row.pk]))
        page = fetch(as_owner, row.get_absolute_url()).decode()
        assert "Stopped by owner" in page
        assert AuditEntry.objects.filter(what="stopped").exists()
        as_owner.post(reverse("recurring_launch", args=[row.pk]))
        row.refresh_from_db()
        assert row.requested_at is None

    def test_launch_now_asks_for_one(self, row: RecurringExperiment, as_owner: Client) -> None:
        as_owner.post(reverse("recurring_launch", args=[row.pk]))
        row.refresh_from_db()
        assert row.requested_at
        assert row.requested_reason == LaunchReason.HAND

    def test_limits_begin_where_that_is_said(
        self, row: RecurringExperiment, as_owner: Client
    ) -> None:
        add_copies(row, 9, last_cost=1.2)
        address = reverse("recurring_limits", args=[row.pk])
        as_owner.post(address, {"from": "10"})
        row.refresh_from_db()
        assert row.limits_from == 10
        assert "outside</strong>" not in fetch(as_owner, row.get_absolute_url()).decode()
        for odd in ("0", "11", "", "x"):
            as_owner.post(address, {"from": odd})
            row.refresh_from_db()
            assert row.limits_from == 10


class TestFiles:
    """All points of all charts, with the limits by which each was judged."""

    def test_csv_and_json_have_the_same_points(
        self, row: RecurringExperiment, as_owner: Client
    ) -> None:
        add_copies(row, 9, last_cost=1.2)
        text = fetch(as_owner, reverse("recurring_csv", args=[row.pk])).decode()
        rows = list(csv.DictReader(io.StringIO(text)))
        content: dict[str, Any] = json.loads(
            fetch(as_owner, reverse("recurring_json", args=[row.pk]))
        )
        assert len(rows) == len(content["points"]) == 30
        outside = [
            (point["recurrence"], point["chart"]) for point in content["points"] if point["outside"]
        ]
        assert outside == [(10, "ratio")]
        assert [line["chart"] for line in rows if line["outside"] == "True"] == ["ratio"]
        last = next(p for p in content["points"] if p["recurrence"] == 10 and p["outside"])
        assert last["limits_of"] == 9
        assert last["value"] > last["high"]
        assert content["method"]["false_alarms_a_recurrence"] == 0.01

    def test_the_figure_is_drawn(self, row: RecurringExperiment, as_owner: Client) -> None:
        add_copies(row, 9, last_cost=1.2)
        address = reverse("recurring_charts_svg", args=[row.pk])
        assert b"<svg" in fetch(as_owner, address)

    def test_the_figure_of_absurd_values_is_described(self, row: RecurringExperiment) -> None:
        add_copies(row, 20)
        for recurrence in row.recurrences.all():
            odd = (None, 1e-300, 1e300)[recurrence.number % 3]
            recurrence.points = [point | {"value": odd} for point in recurrence.points]
            recurrence.save()
        history = read_history(row)
        figure = describe_control_charts(history.charts, marks={})
        assert figure
        assert len(figure.panels) == 3


def test_the_list_shows_each_with_its_state(row: RecurringExperiment, as_owner: Client) -> None:
    page = fetch(as_owner, reverse("recurring_list")).decode()
    assert row.question in page
    assert "1 of 52" in page


def test_without_any_the_list_says_how_to_make_one(as_owner: Client, site: Site) -> None:
    assert "Repeat over time" in fetch(as_owner, reverse("recurring_list")).decode()
