"""A whole experiment as one file: a bag with an RO-Crate in it, and the program that checks both.

It is written while it is read: a document, or a run, stands in memory at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings

from experiments.bundles.bag import PAYLOAD, BagWriter
from experiments.bundles.checklist_facts import read_artefact_facts
from experiments.bundles.crate import METADATA, make_crate
from experiments.bundles.crate_citation import add_citation
from experiments.bundles.evaluation_checklist import make_checklist, write_markdown
from experiments.bundles.plain_json import make_canonical, make_document
from experiments.bundles.run_documents import (
    AS_STORED,
    RunFacts,
    write_jobs,
    write_runs,
    write_snapshots,
)
from experiments.bundles.study_documents import (
    describe_comparison,
    describe_confounders,
    describe_experiment,
    describe_images,
    describe_waivers,
    list_staged,
    write_bills_of_materials,
    write_events,
)
from experiments.citations import Cited, describe_citation, write_cff
from experiments.comparisons import ExperimentComparison, read_comparison
from experiments.comparisons.comparison_keys import identify_inputs, identify_method
from experiments.models import Experiment, Extension, Run
from experiments.provenance.graphs import write_graph
from experiments.signing import NAMESPACE, PRINCIPAL, find_signer
from experiments.statistics import numbers

VERIFY = Path(__file__).with_name("verify.py")
README = """This folder is an experiment of Tare: {question}

    python3 verify.py

checks every file against its check sum, computes the printed numbers again from the runs, and says
which agree. It needs Python 3.8 or newer and nothing else. `python3 verify.py --help` has more.

data/experiment.json     what explains the rest: names, versions, metrics
data/plan.json           the plan as it was frozen before the first run; its sha256 is its hash
data/comparison.json     the full results, as they were printed
data/runs/RUN/           a run: its numbers, its steps, its output, the files that it left
data/jobs/JOB/job.sh     the script of a job, as it was sent
data/confounders.json    which facts of snapshots are compared, and how grave a difference is
data/snapshots/          what was true where runs ran; the names are the check sums
data/images/             the software in each image, as SPDX and as CycloneDX
data/events.jsonl        what happened, by whom, when and why
data/provenance.jsonld   where each number comes from, as a graph (W3C PROV)
data/artefact-evaluation.md   what a review of this artefact would ask, as far as it is known
data/ro-crate-metadata.json   all of this for programs (Workflow Run RO-Crate)
"""
CITATION_LINE = "data/CITATION.cff        authors, licence and how to cite it\n"
SIGNED = """
It is signed by the key {fingerprint} of the site that made it. Compare that
with the key that the site publishes under {key}, and check with OpenSSH:

    ssh-keygen -Y verify -f allowed_signers -I {principal} -n {namespace} \\
        -s tagmanifest-sha256.txt.sig < tagmanifest-sha256.txt
"""
UNSIGNED = "\nIt is not signed. {why}\n"
KEY_PATH = "/about/key/"
ALLOWED_SIGNERS = "allowed_signers"
PROVENANCE = "provenance.jsonld"
CHECKLIST = "artefact-evaluation.md"
DESCRIPTIONS = {
    "experiment.json": "Names, versions, metrics and margins",
    "plan.json": "The plan as it was frozen and hashed before the first run",
    "extension.json": "The repeats that were added after the verdict, as they were frozen",
    "comparison.json": "The full results: ratios, intervals, p values, verdicts, stamps",
    "events.jsonl": "What happened, by whom, when and why",
    "CITATION.cff": "Authors, licence, title and DOI: how to cite it",
    "confounders.json": "Which facts of snapshots are compared, how, and how grave differences are",
    AS_STORED: "Facts of snapshots that an earlier version of Tare stored otherwise",
    "images.json": "The images by digest, the hashes of their files, and what they were made of",
    "parity.json": "The software of both sides, as it was compared before the launch",
    PROVENANCE: "Where each number comes from: a graph by W3C PROV, as PROV-JSONLD",
    CHECKLIST: "What a review of this artefact would ask, by ACM's badges",
    "waivers.json": "Differences in software that a person let pass, and why",
}


class NoBundle(Exception):
    """An experiment of which no bundle can be made now; the message says why."""


class ChangedMeanwhile(Exception):
    """An experiment that was changed while its bundle was written, which has no end therefore."""


@dataclass(frozen=True)
class ExtraFile:
    """A file that a bundle gets beside the rows: its name in `data/`, and what it is."""

    name: str
    content: bytes
    description: str


def require_ended(experiment: Experiment) -> None:
    """Raise NoBundle where runs may still change, or there are none."""
    if experiment.is_draft:
        raise NoBundle("It has not been launched: there is nothing to check yet.")
    alive = experiment.runs.exclude(state__in=Run.FINAL).count()
    if alive:
        have = "has" if alive == 1 else "have"
        raise NoBundle(
            f"{numbers.count(alive, 'run')} {have} not ended: a bundle is of all runs of a plan."
        )


def write_bundle(
    experiment: Experiment,
    name: str,
    *,
    make_extra: Callable[[ExperimentComparison], Sequence[ExtraFile]] = lambda _: (),
    made_at: datetime | None = None,
) -> Iterator[bytes]:
    """Yield the bytes of the bundle, a zip file with one folder, `name`. Raises NoBundle first.

    The same rows give the same bytes, but for the date. Raises ChangedMeanwhile, before the end of
    the file, where rows were changed while it was written.
    """
    require_ended(experiment)
    comparison = read_comparison(experiment)
    extra = make_extra(comparison)
    return _write(experiment, name, comparison, extra, made_at or datetime.now(UTC))


def _write(
    experiment: Experiment,
    name: str,
    comparison: ExperimentComparison,
    extra: Sequence[ExtraFile],
    made_at: datetime,
) -> Iterator[bytes]:
    key = identify_inputs([experiment])[experiment.pk].key
    bag, runs = BagWriter(name), list[RunFacts]()
    extension = Extension.objects.filter(pk=experiment.pk).first()
    about = describe_experiment(experiment, extension)
    cited, (signer, why_not) = describe_citation(experiment), find_signer()
    readme = _write_readme(experiment, cited, signer.fingerprint if signer else "", why_not)
    yield from bag.add("README.txt", [readme.encode()])
    yield from bag.add("verify.py", [VERIFY.read_bytes()])
    if signer:
        yield from bag.add(ALLOWED_SIGNERS, [signer.allowed_signers])
    if cited.authors:
        yield from bag.add(f"{PAYLOAD}CITATION.cff", [write_cff(cited)])
    for document, content in _list_documents(experiment, extension, about, comparison):
        yield from bag.add(PAYLOAD + document, content)
    for file in extra:
        yield from bag.add(PAYLOAD + file.name, [file.content])
    for document, pieces in _list_files(experiment, runs):
        yield from bag.add(document, pieces)
    descriptions = DESCRIPTIONS | {file.name: file.description for file in extra}
    crate = make_crate(
        about, bag.sizes, bag.payload, descriptions, runs, made_at.isoformat(timespec="seconds")
    )
    add_citation(crate["@graph"], cited)
    yield from bag.add(PAYLOAD + METADATA, [make_document(crate)])
    if identify_inputs([Experiment.objects.get(pk=experiment.pk)])[experiment.pk].key != key:
        raise ChangedMeanwhile(f"Experiment {experiment.pk} was changed while it was written.")
    yield from bag.finish(
        {
            "External-Identifier": experiment.plan_hash or experiment.import_hash,
            "External-Description": experiment.question,
            "Bagging-Date": f"{made_at:%Y-%m-%d}",
            "Tare-Method": identify_method(),
        },
        sign=signer.sign if signer else None,
    )


def _write_readme(experiment: Experiment, cited: Cited, fingerprint: str, why_not: str) -> str:
    text = README.format(question=experiment.question) + CITATION_LINE * bool(cited.authors)
    if not fingerprint:
        return text + UNSIGNED.format(why=why_not)
    key = f"{settings.SITE_ADDRESS or 'its address'}{KEY_PATH}"
    names = {"principal": PRINCIPAL, "namespace": NAMESPACE}
    return text + SIGNED.format(fingerprint=fingerprint, key=key, **names)


def _list_documents(
    experiment: Experiment,
    extension: Extension | None,
    about: dict[str, Any],
    comparison: ExperimentComparison,
) -> Iterator[tuple[str, Iterable[bytes]]]:
    yield "experiment.json", [make_document(about)]
    plan = Experiment.objects.values_list("plan", flat=True).get(pk=experiment.pk)
    if plan is not None:
        yield "plan.json", [make_canonical(plan)]
        yield "parity.json", [make_document(plan.get("parity", {}))]
    if extension:
        yield "extension.json", [make_canonical(extension.plan)]
    yield "comparison.json", [make_document(describe_comparison(comparison))]
    yield "confounders.json", [make_canonical(describe_confounders())]
    staged = list_staged(experiment)
    yield "images.json", [make_document(describe_images(experiment, staged))]
    yield from write_bills_of_materials(staged)
    yield "waivers.json", [make_document(describe_waivers(experiment))]
    yield "events.jsonl", write_events(experiment)
    yield PROVENANCE, write_graph(experiment, comparison)
    sections = make_checklist(read_artefact_facts(experiment))
    yield CHECKLIST, [write_markdown(sections, about)]


def _list_files(
    experiment: Experiment, runs: list[RunFacts]
) -> Iterator[tuple[str, Iterator[bytes]]]:
    yield from write_runs(experiment, runs)
    yield from write_jobs(experiment)
    yield from write_snapshots(experiment)
