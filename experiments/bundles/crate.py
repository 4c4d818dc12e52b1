"""The metadata of a bundle as a Workflow Run RO-Crate, by its Provenance profile 0.5.

The plan is the workflow, each environment of a workload is a tool, each of them at a scale is a
step, each run that began is an action: Tare, the engine, organised all of them.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.bundles.bag import PAYLOAD
from experiments.bundles.run_documents import RunFacts

CONTEXT = [
    "https://w3id.org/ro/crate/1.1/context",
    {"sha256": "https://w3id.org/ro/terms/workflow-run#sha256"},
]
PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": ("Process Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/workflow/0.5": ("Workflow Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/provenance/0.5": ("Provenance Run Crate", "0.5"),
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": ("Workflow RO-Crate", "1.0"),
}
METADATA = "ro-crate-metadata.json"
STATUS = "http://schema.org/%sActionStatus"
NO_LICENCE = "Its owner has stated no licence. Ask before you publish or change it."
KINDS = {
    ".jsonl": "application/jsonl",
    ".jsonld": "application/ld+json",
    ".md": "text/markdown",
    ".json": "application/json",
    ".sh": "application/x-sh",
}
COMPARISON = "comparison.json"
Entity = dict[str, Any]


def make_crate(
    about: Mapping[str, Any],
    sizes: Mapping[str, int],
    sums: Mapping[str, str],
    descriptions: Mapping[str, str],
    runs: Sequence[RunFacts],
    made_at: str,
) -> Entity:
    """Return the metadata of the crate in `data/`, whose files have these sizes and check sums."""
    files = sorted(name.removeprefix(PAYLOAD) for name in sums)
    workflow = "plan.json" if "plan.json" in files else "experiment.json"
    began = [run for run in runs if run.began_at]
    tools = _list_places(began, by_scale=False)
    steps = _list_places(began, by_scale=True)
    graph = [
        *_describe_root(about, files, workflow, began, made_at),
        *_describe_workflow(about, workflow, tools, steps),
        *_describe_actions(about, workflow, began, made_at),
        *_describe_data_sets(about),
        *(
            _describe_file(name, sizes[PAYLOAD + name], sums[PAYLOAD + name], descriptions)
            for name in files
            if name != workflow
        ),
    ]
    main = next(entity for entity in graph if entity["@id"] == workflow)
    main.update(
        _describe_file(workflow, sizes[PAYLOAD + workflow], sums[PAYLOAD + workflow], {}, main)
    )
    return {"@context": CONTEXT, "@graph": graph}


def _list_places(runs: Sequence[RunFacts], *, by_scale: bool) -> list[tuple[str, ...]]:
    return list(
        dict.fromkeys(
            (run.workload, run.environment, *((run.scale,) if by_scale else ())) for run in runs
        )
    )


def _tool_id(workload: str, environment: str) -> str:
    return f"#tool-{workload}-{environment}"


def _step_id(run: RunFacts | tuple[str, ...]) -> str:
    place = (run.workload, run.environment, run.scale) if isinstance(run, RunFacts) else run
    return f"#step-{'-'.join(place)}".replace(" ", "_")


def _refer(*names: str) -> list[dict[str, str]]:
    return [{"@id": name} for name in names]


def _describe_root(
    about: Mapping[str, Any],
    files: Sequence[str],
    workflow: str,
    began: Sequence[RunFacts],
    made_at: str,
) -> Iterator[Entity]:
    yield {
        "@id": METADATA,
        "@type": "CreativeWork",
        "conformsTo": _refer(
            "https://w3id.org/ro/crate/1.1", "https://w3id.org/workflowhub/workflow-ro-crate/1.0"
        ),
        "about": {"@id": "./"},
    }
    yield {
        "@id": "./",
        "@type": "Dataset",
        "name": about["question"],
        "description": "What containers cost, measured by Tare: plan, runs, comparison. Check it "
        "with verify.py, which lies beside this folder in the bag.",
        "identifier": about["plan_hash"] or about["import_hash"],
        "datePublished": made_at,
        "license": {"@id": "#licence"},
        "author": {"@id": "#owner"},
        "conformsTo": _refer(*PROFILES),
        "mainEntity": {"@id": workflow},
        "hasPart": _refer(*files),
        "mentions": _refer("#execution", "#organisation", *(f"#run-{run.uid}" for run in began)),
    }
    for address, (name, number) in PROFILES.items():
        yield {"@id": address, "@type": "CreativeWork", "name": name, "version": number}
    yield {
        "@id": "#licence",
        "@type": "CreativeWork",
        "name": "No licence stated",
        "description": NO_LICENCE,
    }
    yield {"@id": "#owner", "@type": "Person", "name": about["owner"]}


def _describe_workflow(
    about: Mapping[str, Any],
    workflow: str,
    tools: Sequence[tuple[str, ...]],
    steps: Sequence[tuple[str, ...]],
) -> Iterator[Entity]:
    yield {
        "@id": workflow,
        "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"],
        "name": f"Plan: {about['question']}",
        "programmingLanguage": {"@id": "#plan-language"},
        "hasPart": _refer(*(_tool_id(*tool) for tool in tools)),
        "step": _refer(*map(_step_id, steps)),
        "output": _refer("#comparison"),
    }
    yield {
        "@id": "#plan-language",
        "@type": "ComputerLanguage",
        "name": "Plan of Tare",
        "alternateName": "Tare",
        "description": "JSON: workloads, environments, scales, and the blocks in their order.",
    }
    yield {
        "@id": "#comparison",
        "@type": "FormalParameter",
        "additionalType": "File",
        "name": "comparison",
        "conformsTo": {"@id": "https://bioschemas.org/profiles/FormalParameter/1.0-RELEASE"},
    }
    for workload, environment in tools:
        names = about["workloads"][workload], about["environments"][environment]
        yield {
            "@id": _tool_id(workload, environment),
            "@type": "SoftwareApplication",
            "name": f"{names[0]} in {names[1]}",
        }
    for position, step in enumerate(steps, start=1):
        workload, environment, scale = step
        names = about["workloads"][workload], about["environments"][environment]
        yield {
            "@id": _step_id(step),
            "@type": "HowToStep",
            "name": f"{names[0]} in {names[1]} at {scale}",
            "position": str(position),
            "workExample": {"@id": _tool_id(workload, environment)},
        }


def _describe_actions(
    about: Mapping[str, Any], workflow: str, began: Sequence[RunFacts], made_at: str
) -> Iterator[Entity]:
    yield {
        "@id": "#tare",
        "@type": "SoftwareApplication",
        "name": "Tare",
        "softwareVersion": about["method"],
    }
    yield {
        "@id": "#execution",
        "@type": "CreateAction",
        "name": f"Experiment {about['experiment']}",
        "instrument": {"@id": workflow},
        "agent": {"@id": "#owner"},
        **_write_times(
            about["launched_at"] or min((run.began_at or "" for run in began), default=""),
            max((run.ended_at or "" for run in began), default=""),
        ),
        "actionStatus": {"@id": STATUS % "Completed"},
        "result": _refer(COMPARISON),
    }
    yield {
        "@id": "#organisation",
        "@type": "OrganizeAction",
        "name": f"Tare runs experiment {about['experiment']}",
        "instrument": {"@id": "#tare"},
        "object": _refer(*(f"#control-{run.uid}" for run in began)),
        "result": {"@id": "#execution"},
    }
    for run in began:
        yield from _describe_run(run, about)


def _describe_run(run: RunFacts, about: Mapping[str, Any]) -> Iterator[Entity]:
    folder = f"runs/{run.uid}"
    results = [f"{folder}/run.json"]
    results += [f"{folder}/steps.json"] * run.has_steps
    results += [f"{folder}/{name}" for name in run.left]
    is_good = run.state in ("succeeded", "excluded")
    yield {
        "@id": f"#control-{run.uid}",
        "@type": "ControlAction",
        "name": f"Start of run {run.uid}",
        "instrument": {"@id": _step_id(run)},
        "object": {"@id": f"#run-{run.uid}"},
    }
    yield {
        "@id": f"#run-{run.uid}",
        "@type": "CreateAction",
        "name": f"Run {run.uid}, repeat {run.repeat}",
        "instrument": {"@id": _tool_id(run.workload, run.environment)},
        "agent": {"@id": "#owner"},
        **_write_times(run.began_at, run.ended_at),
        "actionStatus": {"@id": STATUS % ("Completed" if is_good else "Failed")},
        **({} if is_good else {"error": run.reason or run.state}),
        **_refer_to_data(run, about),
        "result": _refer(*results),
    }


def _refer_to_data(run: RunFacts, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a run has read, if that is a data set of the plan."""
    data = about.get("data_sets", {}).get(run.workload)
    return {"object": _refer(_data_id(data))} if data else {}


def _data_id(data: Mapping[str, Any]) -> str:
    return f"#data-{data['digest'].removeprefix('sha256:')[:16]}"


def _describe_data_sets(about: Mapping[str, Any]) -> Iterator[Entity]:
    """Yield the data sets of the plan, whose files are not in the bundle."""
    by_id = {_data_id(data): data for data in about.get("data_sets", {}).values()}
    for name, data in by_id.items():
        yield {
            "@id": name,
            "@type": "CreativeWork",
            "additionalType": "Dataset",
            "name": data["name"],
            "identifier": data["digest"],
            "size": f"{data['files']} files, {data['bytes']} bytes",
            **({"license": data["licence"]} if data["licence"] else {}),
            **({"isBasedOn": data["source"]} if data["source"] else {}),
        }


def _write_times(began_at: str | None, ended_at: str | None) -> dict[str, str]:
    times = {"startTime": began_at, "endTime": ended_at}
    return {name: time for name, time in times.items() if time}


def _describe_file(
    name: str,
    size: int,
    digest: str,
    descriptions: Mapping[str, str],
    known: Mapping[str, Any] | None = None,
) -> Entity:
    ending = f".{name.rpartition('.')[2]}"
    kind = KINDS.get(ending) or mimetypes.types_map.get(ending, "application/octet-stream")
    described = descriptions.get(name)
    return {
        "@id": name,
        "@type": (known or {}).get("@type", "File"),
        "name": (known or {}).get("name", name.rpartition("/")[2]),
        **({"description": described} if described else {}),
        "encodingFormat": kind,
        "contentSize": str(size),
        "sha256": digest,
    }
