"""Files of experiments on a site: form, file and form again, what is missing, and what is kept."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import transaction
from django.utils.datastructures import MultiValueDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dashboard.planning.definition_drafts import check_text, save_text
from dashboard.planning.experiment_forms import ExperimentForm
from experiments.definitions.definition_problems import BadDefinition
from experiments.definitions.described_experiments import (
    CannotBeWritten,
    describe_experiment,
    write_file,
)
from experiments.execution import lifecycle
from experiments.models import (
    Cluster,
    DataSet,
    Environment,
    Experiment,
    Image,
    Partition,
    SentFile,
    User,
    Workload,
)
from experiments.models.environment_copies import make_copy
from tests.factories import (
    ClusterFactory,
    ContainerFactory,
    DataSetFactory,
    EnvironmentFactory,
    ExperimentFactory,
    PartitionFactory,
    UserFactory,
    WorkloadFactory,
)

pytestmark = pytest.mark.django_db


@dataclass
class Place:
    """A cluster with all that an experiment needs, and a person who may use it."""

    user: User
    cluster: Cluster
    partition: Partition
    bare: Environment
    container: Environment
    workload: Workload

    def write(self, **replaced: str) -> str:
        text = f"""\
# For the rebuttal.
tare: 1
question: What does Apptainer cost?  # here
cluster: {self.cluster.name}
partition: {self.partition.name}
workloads:
  - name: {self.workload.name}
    kind: blas
    time_limit: 1 min
environments:
  - name: {self.bare.name}
    baseline: true
  - name: {self.container.name}  # SIF
    runtime: apptainer
    image: {self.container.staged_image.image.digest}
scales: [1x1]
design: {{repeats: 5}}
margin: 2.3 %
"""
        for before, after in replaced.items():
            text = text.replace(getattr(self, before).name, after)
        return text


def make_place() -> Place:
    user = UserFactory()
    cluster = ClusterFactory(scheduler="slurm")
    container = ContainerFactory(cluster=cluster, binds=["/data:/data"], variables={"A": "1"})
    container.binds, container.variables = [], {}
    container.save()
    return Place(
        user,
        cluster,
        PartitionFactory(cluster=cluster, nodes=8, time_limit_minutes=10_000),
        EnvironmentFactory(cluster=cluster),
        container,
        WorkloadFactory(),
    )


@pytest.fixture
def place() -> Place:
    return make_place()


def list_messages(text: str | bytes, place: Place, **more: Any) -> list[str]:
    return [str(problem) for problem in check_text(text, place.user, **more).problems]


PERCENT = st.one_of(st.integers(1, 100), st.floats(0.01, 100)).map(str)
OPTIONAL = st.one_of(st.just(""), PERCENT)


@st.composite
def typed_forms(draw: st.DrawFn) -> dict[str, Any]:
    """Draw what somebody may type into the form, most of it valid."""
    independent = draw(st.booleans())
    repeats = draw(st.integers(1, 40))
    goal = draw(st.sampled_from(["equivalence", "not slower"]))
    typed: dict[str, Any] = {
        "question": draw(st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=80)),
        "scales": draw(st.sampled_from(["1x1", "1x1, 1x0", "1x1x1", "1x1, 1x0 "])),
        "repeats": str(repeats),
        "looks": str(draw(st.integers(1, max(1, min(5, repeats // 5))))),
        "goal": goal,
        "margin": draw(PERCENT),
        "margin_faster": draw(OPTIONAL) if goal == "equivalence" else "",
        "estimand": draw(st.sampled_from(["nodes", "", "partition"])),
        "primary_metric": draw(st.sampled_from(["", "step_time", "step_time_sd"])),
        "metrics_rule": draw(st.sampled_from(["all", "in order", ""])),
        "design": "independent" if independent else "paired",
        "warm_up": draw(st.sampled_from(["fixed", "found"])),
        "cooldown_seconds": str(draw(st.integers(0, 100))),
        "output_mib": draw(st.sampled_from(["", "1", "2", "10"])),
        "reject_below_mhz": draw(st.sampled_from(["", "1200"])),
        "reject_others_cpus": draw(st.sampled_from(["", "3"])),
        "rejected_again": draw(st.sampled_from(["", "0", "2"])),
        "visibility": draw(st.sampled_from(["", "private", "members", "public"])),
    }
    for name in ("reject_swap", "reject_throttled", "reject_others"):
        if draw(st.booleans()):
            typed[name] = "on"
    if draw(st.booleans()):
        typed |= {"metric_2": "tail_ratio", "margin_2": draw(PERCENT)}
        if goal == "equivalence":
            typed["margin_faster_2"] = draw(OPTIONAL)
    typed["sweep"] = draw(
        st.sampled_from(["", "", "seed: 1, 2", "seed: 1..3", " seed = 4,5 ", "seed: 1\nsteps: 50"])
    )
    return typed


def fill_in(place: Place, typed: dict[str, Any], *environments: Environment) -> ExperimentForm:
    data: MultiValueDict[str, Any] = MultiValueDict({name: [v] for name, v in typed.items()})
    data[f"sweep_{place.workload.pk}"] = data.pop("sweep")[0]
    data["cluster"], data["partition"] = str(place.cluster.pk), str(place.partition.pk)
    data["baseline"] = str(place.bare.pk)
    data.setlist("workloads", [str(place.workload.pk)])
    rows = environments or (place.bare, place.container)
    data.setlist("environments", [str(row.pk) for row in rows])
    return ExperimentForm(data, instance=Experiment(owner=place.user), user=place.user)


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(typed=typed_forms(), ending=st.sampled_from(["yaml", "json"]))
def test_form_to_file_to_form_is_the_identity(
    place: Place, typed: dict[str, Any], ending: str
) -> None:
    with transaction.atomic():
        form = fill_in(place, typed)
        if form.is_valid():
            draft = form.save()
            text = write_file(draft, place.user, ending)
            applied = check_text(text, place.user)
            assert applied.problems == (), text
            assert applied.form
            again, first = applied.form.cleaned_data, form.cleaned_data
            # An empty visibility is stored as the usual one, and the file says which that is.
            again["visibility"] = first["visibility"] = draft.visibility
            for name in ("workloads", "environments"):
                again[name], first[name] = set(again[name]), set(first[name])
            names = again.keys() | first.keys()
            assert {name: again.get(name) for name in names} == {
                name: first.get(name) for name in names
            }
            stored = save_text(text, place.user)
            assert describe_experiment(stored) == describe_experiment(draft)
            assert write_file(stored, place.user, ending) == text
        transaction.set_rollback(True)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(start=st.floats(0, 1), length=st.integers(0, 20), text=st.text(max_size=20))
def test_no_damaged_file_crashes_a_check(
    place: Place, start: float, length: int, text: str
) -> None:
    whole = place.write()
    begin = int(start * len(whole))
    damaged = whole[:begin] + text + whole[begin + length :]
    applied = check_text(damaged, place.user)
    assert applied.is_valid or applied.problems
    assert not Experiment.objects.exists()


@pytest.mark.parametrize("name", ["question", "cluster", "partition", "name", "visibility"])
@pytest.mark.parametrize("value", ['"a\\0b"', "x" * 5000, '"\\ud800"', "[]", "{}", "1e5", "''"])
def test_odd_values_are_refused_in_words(place: Place, name: str, value: str) -> None:
    lines = [line for line in place.write().splitlines() if not line.startswith(f"{name}:")]
    text = "\n".join(lines) + f"\n{name}: {value}\n"
    if name == "name":
        text = place.write(workload=value)
    for applied in (
        check_text(text, place.user),
        check_text(text, place.user, make_missing=True),
        check_text(text, place.user, {"clusters": {place.cluster.name: "b\0"}}),
    ):
        assert applied.is_valid or applied.problems


def test_a_draft_gives_the_text_back_byte_for_byte(place: Place) -> None:
    text = place.write().replace("\n", "\r\n", 3)
    draft = save_text(text.encode(), place.user)
    assert (draft.owner, draft.margin, draft.question) == (
        place.user,
        0.023,
        "What does Apptainer cost?",
    )
    assert write_file(draft, place.user) == text


def test_a_changed_draft_keeps_the_comments_that_have_their_place(place: Place) -> None:
    draft = save_text(place.write(), place.user)
    Experiment.objects.filter(pk=draft.pk).update(repeats=12)
    draft.refresh_from_db()
    text = write_file(draft, place.user)
    assert text.replace("repeats: 12", "repeats: 5") == place.write()


def test_a_launched_plan_says_the_same_as_its_draft(place: Place) -> None:
    draft = save_text(place.write(), place.user)
    before = describe_experiment(draft)
    lifecycle.launch(draft, place.user)
    assert describe_experiment(Experiment.objects.get(pk=draft.pk)) == before
    assert write_file(draft, place.user) == place.write()


def test_a_launched_plan_is_written_as_it_was_frozen(place: Place) -> None:
    """Later changes of the catalogue do not rewrite it."""
    place.container.runtime.setup_lines = "module load apptainer"
    place.container.runtime.save()
    place.container.setup_lines = "ulimit -s unlimited\n"
    place.container.save()
    draft = ExperimentFactory(
        cluster=place.cluster,
        partition=place.partition,
        baseline=place.bare,
        workloads=[place.workload],
        environments=[place.bare, place.container],
        owner=place.user,
    )
    lifecycle.launch(draft, place.user)
    before = describe_experiment(draft)
    assert before.environments[1].setup_lines == "ulimit -s unlimited\n"
    Workload.objects.filter(pk=place.workload.pk).update(parameters={"seed": 9})
    Environment.objects.filter(pk=place.container.pk).update(variables={"B": "2"})
    assert describe_experiment(Experiment.objects.get(pk=draft.pk)) == before
    [workload] = before.workloads
    assert workload.parameters["seed"] == 1


def test_rows_are_found_by_what_they_are_and_not_by_name(place: Place) -> None:
    text = place.write(workload="their blas", container="their container", bare="their metal")
    draft = save_text(text, place.user)
    assert set(draft.environments.all()) == {place.bare, place.container}
    assert list(draft.workloads.all()) == [place.workload]


def test_all_that_is_missing_is_named_with_what_to_do(place: Place) -> None:
    text = place.write().replace("kind: blas", "kind: blas\n    parameters: {seed: 77}")
    text = text.replace("runtime: apptainer", "runtime: udocker").replace("1x1", "1x9")
    text = text.replace("partition: ", "partition: x").replace(
        "design: {", "design: {order: pared, "
    )
    assert "Is paired meant?" in list_messages(text, place)[0]
    messages = list_messages(text.replace("order: pared, ", ""), place)
    partition, workload, environment = messages
    assert "has no partition “x" in partition
    assert "Is gpu" in partition
    assert "have it made of the file, or map the name" in workload
    assert "has no runtime udocker; it has apptainer" in environment


def test_an_image_that_is_not_here_is_to_be_imported(place: Place) -> None:
    digest = place.container.staged_image.image.digest
    [message] = list_messages(place.write().replace(digest, "sha256:" + "0" * 64), place)
    assert "line 15, column 5: environments[1].image: No image sha256:000000000000… is here" in (
        message
    )
    assert "import it first" in message


def test_what_one_may_not_view_is_as_if_it_were_not_here(place: Place) -> None:
    Image.objects.update(visibility="private")
    Environment.objects.filter(pk=place.container.pk).update(visibility="private")
    Workload.objects.update(visibility="private")
    messages = list_messages(place.write(), place)
    assert any("No image" in message for message in messages)
    assert any("No blas workload" in message for message in messages)
    assert place.container.staged_image.image.reference not in " ".join(messages)


def test_a_file_of_another_site_is_mapped_by_a_short_table(place: Place) -> None:
    foreign = place.write(cluster="hpc1", partition="a100", container="sif")
    foreign = foreign.replace(place.container.staged_image.image.digest, "sha256:" + "9" * 64)
    applied = check_text(foreign, place.user)
    [missing] = applied.missing
    assert missing.section == "clusters"
    assert place.cluster.name in missing.choices
    mapping = {"clusters": {"hpc1": place.cluster.name}}
    sections = [row.section for row in check_text(foreign, place.user, mapping).missing]
    assert sections == ["partitions", "environments"]
    mapping["partitions"] = {"a100": place.partition.name}
    mapping["environments"] = {"sif": place.container.name}
    draft = save_text(foreign, place.user, mapping)
    assert set(draft.environments.all()) == {place.bare, place.container}
    exported = write_file(draft, place.user)
    assert "# For the rebuttal." in exported
    assert check_text(exported, place.user).is_valid  # it needs no table any more
    in_file = foreign + f"map: {json.dumps(mapping)}\n"
    assert write_file(save_text(in_file, place.user), place.user) == in_file


def test_a_mapped_image_is_enough_for_the_same_settings(place: Place) -> None:
    digest = place.container.staged_image.image.digest
    foreign = place.write().replace(digest, "sha256:" + "9" * 64)
    mapping = {"images": {"sha256:" + "9" * 64: digest}}
    assert check_text(foreign, place.user, mapping).is_valid


def test_environments_that_are_alike_are_told_apart_by_name(place: Place) -> None:
    twin = ContainerFactory(
        cluster=place.cluster,
        runtime=place.container.runtime,
        staged_image=place.container.staged_image,
    )
    assert save_text(place.write(), place.user).environments.filter(pk=twin.pk).count() == 0
    [message] = list_messages(place.write(container="other"), place)
    assert "Several environments" in message
    assert twin.name in message


def test_a_workload_is_made_of_the_file_when_asked_for(place: Place) -> None:
    text = place.write(workload="hello").replace(
        "kind: blas",
        "kind: command\n    parameters:\n      argv: [run.py]\n      read: nothing\n"
        "      files: {run.py: {text: print(1)}}",
    )
    before = Workload.objects.count()
    assert check_text(text, place.user, make_missing=True).is_valid
    assert (Workload.objects.count(), SentFile.objects.count()) == (before, 0)
    draft = save_text(text, place.user, make_missing=True)
    [workload] = draft.workloads.all()
    assert (workload.name, workload.owner, workload.visibility) == ("hello", place.user, "private")
    [file] = SentFile.objects.all()
    assert workload.parameters["files"] == {"run.py": file.sha256}
    assert write_file(draft, place.user) == text
    assert save_text(text, place.user).workloads.get() == workload


@pytest.mark.parametrize("limit", ["9 s", "1e15 s", "600000 h"])
def test_a_workload_with_a_time_limit_that_none_has_is_not_made(place: Place, limit: str) -> None:
    text = place.write().replace("kind: blas", f"kind: blas\n    time_limit: {limit}")
    checked = check_text(text, place.user, make_missing=True)
    assert [problem.field for problem in checked.problems] == ["workloads[0].time_limit"]


def test_a_check_sum_opens_no_file_of_others(place: Place) -> None:
    file = SentFile.objects.keep(b"a secret program")
    text = place.write().replace(
        "kind: blas",
        "kind: command\n    parameters: {argv: [run.py], read: nothing, files: "
        f"{{run.py: {file.sha256}}}}}",
    )
    [message] = list_messages(text, place, make_missing=True)
    assert "run.py" in message
    assert Workload.objects.filter(kind="command").count() == 0


def test_nothing_is_kept_of_a_file_that_is_refused(place: Place) -> None:
    text = place.write().replace("kind: blas", "kind: blas\n    parameters: {seed: 5}")
    before = Workload.objects.count()
    with pytest.raises(BadDefinition) as refusal:
        save_text(text.replace("1x1", "9x9"), place.user, make_missing=True)
    assert all(problem.field == "scales" for problem in refusal.value.problems)
    assert (Experiment.objects.count(), Workload.objects.count()) == (0, before)


def test_problems_of_the_form_stand_at_their_lines(place: Place) -> None:
    text = place.write().replace("margin: 2.3 %", "margin: 200 %")
    text += "metrics: {further: [{metric: nothing, margin: 5 %}]}\nreject: {tries_again: 2}\n"
    text = text.replace("repeats: 5", "repeats: 5, interim_analyses: 3")
    places = [(p.field, p.line) for p in check_text(text, place.user).problems]
    assert list(dict.fromkeys(places)) == [
        ("design.interim_analyses", 17),
        ("margin", 18),
        ("metrics.further[0].metric", 19),
    ]


def test_a_sweep_and_an_again_environment_come_back(place: Place) -> None:
    copy = make_copy(place.bare)
    draft = ExperimentFactory(
        cluster=place.cluster,
        partition=place.partition,
        baseline=place.bare,
        workloads=[place.workload],
        environments=[place.bare, copy],
        owner=place.user,
    )
    text = write_file(draft, place.user)
    assert "once_more: true" in text
    assert describe_experiment(save_text(text, place.user)) == describe_experiment(draft)


def test_a_data_set_is_found_by_its_digest(place: Place) -> None:
    data_set: DataSet = DataSetFactory(visibility="members")
    Workload.objects.filter(pk=place.workload.pk).update(data_set=data_set)
    text = place.write()
    assert "No blas workload" in list_messages(text, place)[0]
    named = text.replace(
        "    time_limit", f"    data_set: {{digest: {data_set.digest}}}\n    time_limit"
    )
    assert save_text(named, place.user).workloads.get() == place.workload
    unknown = named.replace(data_set.digest, "sha256:" + "0" * 64)
    assert "register the folder" in list_messages(unknown, place)[0]


def test_a_file_replaces_a_draft_and_no_launched_one(place: Place) -> None:
    draft = save_text(place.write(), place.user)
    changed = place.write().replace("repeats: 5", "repeats: 7")
    assert save_text(changed, place.user, draft=draft).pk == draft.pk
    draft.refresh_from_db()
    assert draft.repeats == 7
    lifecycle.launch(draft, place.user)
    with pytest.raises(BadDefinition, match="launched or deleted"):
        save_text(place.write(), place.user, draft=draft)


def test_others_get_no_comments_and_nothing_that_they_may_not_view(place: Place) -> None:
    draft = save_text(place.write(), place.user)
    Experiment.objects.filter(pk=draft.pk).update(visibility="members")
    draft.refresh_from_db()
    other = UserFactory()
    text = write_file(draft, other)
    assert "rebuttal" not in text
    assert "visibility" not in text
    Environment.objects.filter(pk=place.container.pk).update(visibility="private")
    with pytest.raises(CannotBeWritten):
        write_file(draft, other)


def test_many_workloads_and_environments_are_read_in_few_statements(
    place: Place, django_assert_max_num_queries: Any
) -> None:
    for _ in range(30):
        ContainerFactory(
            cluster=place.cluster, runtime=place.container.runtime, staged_image__format="sif"
        )
    applied: Any
    with django_assert_max_num_queries(40):
        applied = check_text(place.write(), place.user)
    assert applied.is_valid


def test_a_cold_and_a_warm_page_cache_are_varied_by_a_file(place: Place) -> None:
    text = place.write().replace(
        "    time_limit: 1 min\n",
        "    time_limit: 1 min\n    sweep: {page_cache: [cold, warm]}\n",
    )
    draft = save_text(text, place.user)
    found = {row.parameters.get("page_cache") for row in draft.workloads.all()}
    assert found == {"cold", "warm"}
    lifecycle.launch(draft, draft.owner)
    assert write_file(Experiment.objects.get(pk=draft.pk), place.user) == text
    wrong = text.replace("[cold, warm]", "[cold, frozen]")
    assert any("as it is, warm, cold" in message for message in list_messages(wrong, place))


def test_a_row_of_another_name_is_remarked_on_unless_a_table_names_it(place: Place) -> None:
    """Somebody who wrote “bare metal” may not have meant “bare metal 2”."""
    assert check_text(place.write(), place.user).remarks == ()
    text = place.write(workload="their blas", bare="their metal")
    applied = check_text(text, place.user)
    assert applied.is_valid, applied.problems
    assert [remark.partition(":")[0] for remark in applied.remarks] == [
        f"The workload “their blas” of the file is “{place.workload.name}” here",
        f"The environment “their metal” of the file is “{place.bare.name}” here",
    ]
    assert set(applied.remarks) <= set(applied.warnings)
    mapping = {"environments": {"their metal": place.bare.name}}
    assert len(check_text(text, place.user, mapping).remarks) == 1
