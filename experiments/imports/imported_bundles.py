"""Bundles of another Tare as experiments: the same plan, the same runs, the same comparison.

All of it enters in one transaction, after all that is stated was checked: by `verify.py`, and once
more by the comparison that this site computes from what it stored.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.db import DatabaseError, IntegrityError, InterfaceError, OperationalError, transaction
from django.utils import timezone

from experiments.citations import keep_statement
from experiments.design import compute_hash
from experiments.execution.moves import record_event
from experiments.imports.bundle_catalogue import WHY, Catalogue, create_catalogue
from experiments.imports.bundle_comparison import compare_with_printed
from experiments.imports.bundle_door import (
    MOST_OF_RUNS,
    UNREADABLE,
    CheckedBundle,
    open_bundle,
)
from experiments.imports.bundle_runs import RowMaker
from experiments.imports.bundle_shapes import (
    ABOUT,
    LISTED,
    PLAN,
    read_moment,
    read_shape,
    read_unchanged,
)
from experiments.imports.problems import ImportProblem
from experiments.models import Experiment, Extension, ImportedBundle, Run, User
from experiments.notify import enqueue_keep
from experiments.statistics import numbers
from runners import node_rules
from runners.kept_output import DEFAULT_MIB, OUTPUT_MIB
from runners.untrusted import Anything, clean_text

logger = logging.getLogger(__name__)

IMPORTED = "imported a bundle"
DATABASE_AWAY = (OperationalError, InterfaceError)
LOST = (
    "The database was lost in the middle. Import it again in some seconds: all of it is stored, or "
    "nothing, and runs that are here already are recognised."
)
OF_VALUES = ("22", "54")
"""How codes of PostgreSQL begin that speak of the values: wrong ones, and too large ones."""
Document = dict[str, Any]


class BundleKnown(ImportProblem):
    """The runs of a bundle are on this site already."""

    def __init__(self, experiment: Experiment) -> None:
        super().__init__("The runs of this bundle are on this site already.")
        self.experiment = experiment


@dataclass(frozen=True)
class Imported:
    """The experiment of a bundle, and where the comparison here is another than the printed one."""

    experiment: Experiment
    differences: list[str]


def import_bundle(
    path: Path,
    owner: User,
    *,
    file_name: str,
    visibility: str = Experiment.Visibility.PRIVATE,
    most_of_runs: int = MOST_OF_RUNS,
) -> Imported:
    """Store a bundle as an experiment of `owner`.

    Raises BundleKnown where its runs are here already, and ImportProblem, with nothing stored,
    where anything of it is not what it should be. One of DATABASE_AWAY where the database is lost
    in the middle; LOST is what to say then.
    """
    with open_bundle(path, most_of_runs) as bundle:
        uids = [str(run["run"]) for run in bundle.study.runs]
        _require_new(uids)
        try:
            with transaction.atomic():
                return _store(bundle, owner, clean_text(file_name)[:300], visibility)
        except ImportProblem:
            raise
        except IntegrityError:  # the same bundle at the same moment, or rows that contradict
            _require_new(uids)
            raise ImportProblem("Its runs and jobs contradict each other.") from None
        except DATABASE_AWAY as error:
            if not _get_code(error).startswith(OF_VALUES):
                raise
            raise _refuse_values(error) from None
        except DatabaseError as error:
            raise _refuse_values(error) from None
        except UNREADABLE as error:
            logger.warning("A bundle could not be imported.", exc_info=True)
            what = clean_text(repr(error))[:200]
            raise ImportProblem(f"Its documents are not what they should be: {what}.") from None


def _get_code(error: BaseException) -> str:
    """Return PostgreSQL's code for an error; "" where the connection broke off."""
    return getattr(error.__cause__, "pgcode", None) or ""


def _refuse_values(error: BaseException) -> ImportProblem:
    what = clean_text(str(error)).split("\n")[0][:200]
    return ImportProblem(f"It holds what no database keeps: {what}.")


def _require_new(uids: list[str]) -> None:
    run = Run.objects.filter(uid__in=uids).select_related("experiment").first()
    if run is not None:
        raise BundleKnown(run.experiment)


def _store(bundle: CheckedBundle, owner: User, file_name: str, visibility: str) -> Imported:
    about = read_shape("data/experiment.json", bundle.study.about, ABOUT)
    plan: Document | None = None
    if bundle.study.plan is not None:
        plan = read_unchanged("data/plan.json", bundle.study.plan, PLAN)
    printed = [str(row["workload"]) for row in bundle.study.comparison["comparison"]]
    catalogue = create_catalogue(about, plan, owner, printed=printed)
    experiment = _create_experiment(about, plan, catalogue, owner, visibility)
    differences = RowMaker(bundle, experiment, catalogue, plan).create_runs()
    if about.get("extended_repeats"):
        _create_extension(bundle, experiment, owner)
    _link_reproductions(experiment, about, owner)
    differences += compare_with_printed(bundle, experiment, about)
    kept = ImportedBundle.objects.create(
        experiment=experiment,
        sha256=bundle.sha256,
        file_name=file_name,
        site=about.get("site") or "",
        number=about.get("experiment") or "",
        owner=about["owner"],
        made_on=_read_day(bundle),
        method=about["method"],
        signed_by=bundle.signer,
        brought_at=timezone.now(),
        differences=differences,
        images=_read_list(bundle, "images"),
        waivers=_read_list(bundle, "waivers"),
    )
    if stated := about.get("citation"):
        _keep_citation(experiment, owner, stated)
    runs = numbers.count(len(bundle.study.runs), "run")
    why = f"{runs}, {kept.origin}, from {file_name}, sha256 {bundle.sha256}"
    record_event(experiment, IMPORTED, why=why, by=owner)
    enqueue_keep(experiment.pk)
    return Imported(experiment, differences)


def _keep_citation(experiment: Experiment, owner: User, stated: Document) -> None:
    """Store who the bundle says its authors are, under which licence, title and DOI."""
    published_at = read_moment("citation", stated.get("doi_published_at"))
    try:
        keep_statement(experiment, owner, stated, published_at=published_at, why=WHY)
    except ValueError as problem:
        raise ImportProblem(f"How it is cited cannot be kept: {problem}") from None


def _link_reproductions(experiment: Experiment, about: Document, owner: User) -> None:
    """Link an experiment with the one that it does again, and with those that do it again.

    Only with what `owner` may view, or has imported before: a hash alone opens nothing.
    """
    if record := about.get("reproduces"):
        visible = Experiment.objects.visible_to(owner).exclude(pk=experiment.pk)
        firsts = visible.filter(plan_hash=record["plan_hash"], launched_at__isnull=False)
        Experiment.objects.filter(pk=experiment.pk).update(
            reproduction=record,
            reproduces=firsts.order_by("pk").values_list("pk", flat=True).first(),
        )
    if experiment.plan_hash:
        Experiment.objects.filter(
            owner=owner,
            reproduces=None,
            bundle_keys__isnull=False,
            reproduction__plan_hash=experiment.plan_hash,
        ).exclude(pk=experiment.pk).update(reproduces=experiment)


def _read_list(bundle: CheckedBundle, name: str) -> list[Document]:
    document = f"data/{name}.json"
    rows: list[Document] = read_shape(document, bundle.read_json(document), LISTED)
    return rows


def _read_day(bundle: CheckedBundle) -> str:
    lines = bundle.read_lines("bag-info.txt")
    days = [line.partition(": ")[2] for line in lines if line.startswith("Bagging-Date: ")]
    return clean_text(days[0])[:30] if days else ""


def _create_experiment(
    about: Document, plan: Document | None, catalogue: Catalogue, owner: User, visibility: str
) -> Experiment:
    definition = about["definition"]
    columns = _read_plan(plan) if plan is not None else _read_logs(about)
    experiment = Experiment(
        question=about["question"],
        cluster=catalogue.cluster,
        partition=catalogue.partition,
        baseline=catalogue.environments[definition["baseline"]],
        owner=owner,
        visibility=visibility,
        bundle_keys=catalogue.keys,
        looks=len(definition["after_repeats"]),
        **{name: definition[name] for name in ("design", "goal", "warm_up", "repeats", "scales")},
        estimand=definition.get("estimand") or "",
        metrics_rule=definition["metrics_rule"],
        margin=definition["margins"][0]["margin"],
        margin_faster=definition["margins"][0].get("margin_faster"),
        cancelled_at=read_moment("cancelled_at", about.get("cancelled_at")),
        stopped_at_look=about.get("stopped_at_look"),
        extended_repeats=about.get("extended_repeats"),
        extension_level=about.get("extension_level"),
        **columns,
    )
    relations = [field.name for field in Experiment._meta.fields if field.is_relation]
    try:
        experiment.clean_fields(exclude=[*relations, "bundle_keys", "plan", "imported_at"])
    except ValidationError as error:
        named = "; ".join(f"{name}: {' '.join(why)}" for name, why in error.message_dict.items())
        raise ImportProblem(f"Its definition is not one of an experiment. {named}") from None
    experiment.launched_at = read_moment("launched_at", about.get("launched_at"))
    experiment.imported_at = read_moment("imported_at", about.get("imported_at"))
    if (experiment.launched_at is None) != (plan is None):
        raise ImportProblem("A launched experiment has a plan, and no other has one.")
    experiment.save()
    if plan is not None:
        stored = Experiment.objects.values_list("plan", flat=True).get(pk=experiment.pk)
        if compute_hash(stored or {}) != experiment.plan_hash:
            raise ImportProblem("Its plan has numbers that the database does not keep as they are.")
    experiment.workloads.set(catalogue.workloads.values())
    experiment.environments.set(catalogue.environments.values())
    return experiment


def _read_plan(plan: Document) -> Document:
    """Return the columns of an experiment that only its frozen plan has."""
    rules = plan.get("reject") or {}
    return {
        "plan": plan,
        "plan_hash": compute_hash(plan),
        "order_seed": plan["order_seed"],
        "primary_metric": plan.get("primary_metric") or "",
        "further_metrics": plan.get("further_metrics") or [],
        "accuracy_margin": plan.get("accuracy_margin"),
        "loss_margin": plan.get("loss_margin"),
        "spreads_nodes": bool(plan.get("one_block_a_node")),
        "cooldown_seconds": plan.get("cooldown_seconds") or 0,
        "reject_swap": bool(rules.get(node_rules.SWAP)),
        "reject_throttled": bool(rules.get(node_rules.THROTTLED)),
        "reject_below_mhz": rules.get(node_rules.LEAST_MHZ),
        "reject_others": bool(rules.get(node_rules.OTHERS)),
        "reject_others_cpus": rules.get(node_rules.OTHERS_CPUS),
        "rejected_again": rules.get(node_rules.ATTEMPTS, 0),
        "output_mib": plan.get(OUTPUT_MIB, DEFAULT_MIB),
    }


def _read_logs(about: Document) -> Document:
    """Return the columns of an experiment that others' logs have become."""
    metrics = [row["name"] for row in about["metrics"][0].values()]
    return {
        "primary_metric": metrics[0],
        "imported_from": about.get("imported_from") or "",
        "import_hash": about.get("import_hash") or "",
    }


def _create_extension(bundle: CheckedBundle, experiment: Experiment, owner: User) -> None:
    name = "data/extension.json"
    plan = read_unchanged(name, bundle.read_json(name), Anything())
    event = experiment.events.filter(what="extended").first()
    if event is None:
        raise ImportProblem("It was extended, and no event says by whom and when.")
    Extension.objects.create(
        experiment=experiment,
        extended_by=owner,
        stated_by=event.stated_by,
        extended_at=event.at,
        plan=plan,
        plan_hash=compute_hash(plan),
    )
