"""The job script and all files that are sent with it. No I/O: a JobSpec in, files out.

All that people typed is quoted here, once, or refused. The only exception are the set-up lines of
clusters and environments: administrators write them, and they are shell by design. They are stored
as quoted text and evaluated in the run that needs them, so that an error in one ends one run.
"""

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runners import code_copies, launching, page_cache
from runners.data_sets import VARIABLE, build_proof_command, describe_data, why_no_data_path
from runners.jobs import EnvironmentSpec, JobSpec, RunSpec, SegmentSpec
from runners.node_samples import LEAST_INTERVAL_SECONDS, MOST_SAMPLES
from runners.payload import read_payload_files
from runners.runtimes import RUNTIMES, Inside, Runtime
from runners.schedulers import Scheduler
from runners.workloads import WORKLOADS
from runners.workloads.command import Command
from runners.workloads.given import OURS, why_no_file_name
from runners.workloads.page_cache import choose_policy

TEMPLATE = Path(__file__).with_name("job.sh.template")
NODE_PYTHON = ("python3", "-B", "-E", "-s")
"""The node's own, which neither variables nor the user's packages change. It writes no bytecode."""
PROCESSES_TEMPLATE = Path(__file__).with_name("gpu_processes.sh.template")
PROOF_TEMPLATE = Path(__file__).with_name("proof.sh.template")


def render_job_files(job: JobSpec, scheduler: Scheduler) -> dict[str, bytes]:
    """Return all files of the job's directory before it is submitted: contents by name."""
    payload = {f"payload/{name}": content for name, content in read_payload_files().items()}
    return render_own_files(job, scheduler) | payload


def render_own_files(job: JobSpec, scheduler: Scheduler) -> dict[str, bytes]:
    """Return the files of the job's directory without the payload, which is that of every job."""
    files = {"job.sh": render(job, scheduler).encode()}
    files |= dict(job.files)
    if any(run.workload == Command.kind for run in job.runs):
        files |= {f"files/{name}": content for name, content in job.sent}
        files[f"files/{OURS}"] = read_payload_files()["recorder.py"]
    for run in job.runs:
        spec = {
            "schema": 1,
            "run": run.uid,
            "environment": run.environment.label,
            "workload": run.workload,
            **_name_interpreter(run),
            "parameters": dict(run.parameters),
            "nodes": job.launch.nodes,
            "gpus": job.resources.gpus_per_node // job.launch.instances,  # of a node
            "instances": job.launch.instances,
            **({"data_set": describe_data(run.data)} if run.data else {}),
            **({"code": code_copies.describe_code(run.code)} if run.code else {}),
            **({"segment": _describe_segment(run, run.segment)} if run.segment else {}),
        }
        text = json.dumps(spec, ensure_ascii=False, indent=2)
        files[f"runs/{run.directory_name}/spec.json"] = text.encode()
    return files


def _describe_segment(run: RunSpec, segment: SegmentSpec) -> dict[str, Any]:
    """Return what the payload has to know of a run that may take several jobs."""
    return {
        "number": segment.number,
        "most": segment.most,
        "limit_seconds": run.time_limit_seconds,
        "earlier": list(segment.earlier),
    }


def _name_interpreter(run: RunSpec) -> dict[str, str]:
    """Return what {python} stands for: where no payload runs inside, none can tell."""
    outside = WORKLOADS[run.workload].is_recorded_outside(run.parameters)
    return {"python": run.environment.python} if outside else {}


def render(job: JobSpec, scheduler: Scheduler) -> str:
    """Return the text of `job.sh`. ValueError if something cannot be written safely in a script."""
    _refuse_unsafe(job)
    policy = choose_policy(job.runs[0].parameters) if job.runs else ""
    parts = {
        "header": "\n".join(scheduler.render_header(job)),
        "directory": quote(job.directory),
        "job_id": f'"{scheduler.job_id}"',
        "facts": scheduler.facts,
        "gpus": str(job.resources.gpus_per_node),
        "samples": _render_samples(job),
        "processes": PROCESSES_TEMPLATE.read_text() if job.counts_gpu_processes else "",
        "count": "count_gpu_processes || :\n    " if job.counts_gpu_processes else "",
        **_render_proofs(job),
        "cache": page_cache.render_function(policy) if policy else "",
        "prepare": "prepare_page_cache\n    " if policy else "",
        "runs": _render_steps(job) if job.steps else _render_runs(job),
        **launching.render_parts(job),
    }
    return re.sub(r"@(\w+)@", lambda match: parts[match[1]], TEMPLATE.read_text())


def _render_proofs(job: JobSpec) -> dict[str, str]:
    """Return the shell functions by which the job proves its data and code, and their calls."""
    proofs = []
    if job.data:
        proofs.append(("prove_data", "data set", "data-set", build_proof_command(job.data)))
    if job.code:
        command = code_copies.build_proof_command(job.code)
        proofs.append(("prove_code", "code", "code", command))
    functions = [
        re.sub(
            r"@(\w+)@",
            lambda match, parts=parts: parts[match[1]],  # type: ignore[misc]
            PROOF_TEMPLATE.read_text(),
        )
        for name, what, file, command in proofs
        for parts in [{"name": name, "what": what, "file": file, "arguments": _quote_all(command)}]
    ]
    return {
        "proof": "".join(functions),
        "prove": "".join(f"{name}\n    " for name, *_ in proofs),
    }


def _render_samples(job: JobSpec) -> str:
    """Return the lines that begin to sample the node: of operations there are none."""
    if not job.runs:
        return ""
    begun = f"choose_gpus\nbegin_samples {choose_interval(job)}\n"
    return f"{begun}begin_process_counts\n\n" if job.counts_gpu_processes else f"{begun}\n"


def choose_interval(job: JobSpec) -> int:
    """Return after how many seconds the node is sampled again, so that there are MOST_SAMPLES."""
    longest = job.resources.time_limit_seconds
    return max(LEAST_INTERVAL_SECONDS, -(-longest // MOST_SAMPLES))


def quote(text: str) -> str:
    """Return this text as one word of bash, on one line. ValueError for a NUL.

    Line breaks are escaped: schedulers refuse scripts with carriage returns, and a reader should
    see them.
    """
    if "\0" in text:
        raise ValueError("a NUL cannot be passed to a program")
    if text.isprintable():
        text.encode()  # a lone surrogate is a ValueError too
        return shlex.quote(text)
    return "$'" + "".join(_escape_character(character) for character in text) + "'"


def _escape_character(character: str) -> str:
    if character in "\\'":
        return "\\" + character
    if character.isprintable():
        return character
    if character == "\n":
        return "\\n"
    return "".join(f"\\{byte:03o}" for byte in character.encode())


def _render_runs(job: JobSpec) -> str:
    blocks = [_render_run(job, run, number) for number, run in enumerate(job.runs, start=1)]
    pause = f"\n\ncool_down {job.cooldown_seconds}\n\n" if job.cooldown_seconds else "\n\n"
    return pause.join(blocks)


def _render_run(job: JobSpec, run: RunSpec, number: int) -> str:
    environment = run.environment
    runtime = RUNTIMES[environment.runtime]()
    directory = job.locate_run(run)
    gpus = job.resources.gpus_per_node > 0
    earlier = run.segment.earlier if run.segment else ()
    inside = Inside(
        environment,
        directory,
        binds=(job.directory, *earlier),
        gpus=gpus,
        read_only=run.read_only_paths,
    )
    container_command = runtime.wrap(inside)
    workload, payload = WORKLOADS[run.workload], f"{job.directory}/payload"
    if workload.is_recorded_outside(run.parameters):
        recorder = [*NODE_PYTHON, f"{payload}/outside.py", f"{directory}/spec.json"]
        container_command = [*recorder, *container_command]
        program = ["/bin/sh", f"{payload}/inside.sh"]
    else:
        program = workload.build_argv(environment.python, payload, directory)
    several = launching.is_several(job)
    home = job.launch.instances == 1
    settings = _quote_all(_list_variables(environment, directory, home=home, run=run))
    gpu_setting = "" if runtime.numbers_gpus or several else '"${visible_gpus[@]}" '
    setup = "\n".join([*job.setup_lines, *environment.setup_lines]).replace("\r", "")
    label = json.dumps(environment.label, ensure_ascii=False)  # one line, whatever it holds
    return "\n".join(
        [
            f"# Run {number} of {len(job.runs)}: {run.workload}, {runtime.label} {label}",
            f"setup={quote(setup)}",
            f"limit={run.time_limit_seconds:d}",
            f"runtime={quote(runtime.choose_executable(environment))}",
            f"image={quote(environment.image_path)}",
            f"present=({_quote_all(runtime.build_presence_command(environment))})",
            f"version=({_quote_all(runtime.build_version_command(environment.executable))})",
            *_render_page_cache(run),
            *(_render_several_processes(job, runtime, inside) if several else ()),
            f"wall=({_quote_all(container_command)})",
            f"variables=({gpu_setting}{settings})",
            f"program=({_quote_all(program)})",
            f"run {run.uid} {quote(f'runs/{run.directory_name}')}",
        ]
    )


def _render_page_cache(run: RunSpec) -> list[str]:
    """Return whose files are read, or dropped from memory, before the run; nothing as usual."""
    if not choose_policy(run.parameters):
        return []
    return [
        f"files_of_image=({_quote_all(page_cache.build_places_command(run.environment))})",
        f"files_of_data=({_quote_all(page_cache.list_data_places(run))})",
        f"reader=({_quote_all(page_cache.build_reading_command(run.environment))})",
    ]


def _render_several_processes(job: JobSpec, runtime: Runtime, inside: Inside) -> list[str]:
    return [
        f"ready=({_quote_all(runtime.build_preparation_command(inside))})",
        f"launch=({_quote_all(launching.build_launcher_command(job))})",
        f"hands_gpus={'' if runtime.numbers_gpus else 'yes'}",
    ]


def wrap_program(environment: EnvironmentSpec, directory: str, program: Sequence[str]) -> list[str]:
    """Return the command that runs `program` in this environment as a run's program, without GPUs.

    `directory` is bound into the container; it is the program's home and working directory.
    """
    container_command = RUNTIMES[environment.runtime]().wrap(
        Inside(environment, directory, binds=(directory,))
    )
    return [*container_command, "/usr/bin/env", *_list_variables(environment, directory), *program]


def _list_variables(
    environment: EnvironmentSpec, directory: str, *, home: bool = True, run: RunSpec | None = None
) -> list[str]:
    """Return the variables of a program that starts in `directory`, as `env` takes them.

    Without `home` the script sets HOME, for instances with a home each.
    """
    variables = {
        "TARE_RUN": directory,  # by this the script finds processes that the run leaves behind
        **({"HOME": directory} if home else {}),
        **({VARIABLE: run.data.path} if run and run.data else {}),
        **({code_copies.VARIABLE: run.code.path} if run and run.code else {}),
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
        **dict(environment.variables),
    }
    return [f"{name}={value}" for name, value in variables.items()]


def _render_steps(job: JobSpec) -> str:
    """Return the steps as a shell function, so that the first that fails can leave it."""
    setup = "\n".join(job.setup_lines).replace("\r", "")
    lines = []
    for number, step in enumerate(job.steps, start=1):
        members = {"doing": step.doing, "number": number, "of": len(job.steps)}
        more = f", {json.dumps(members)[1:-1]}"
        lines.append(f"    step {quote(more)} {_quote_all(list(step.argv))}")
    steps = "\n".join(lines)
    return f"setup={quote(setup)}\nsteps() {{\n{steps}\n}}\noperation"


def _quote_all(arguments: list[str]) -> str:
    return " ".join(quote(argument) for argument in arguments)


def _refuse_unsafe(job: JobSpec) -> None:
    """Raise ValueError for texts that no quoting can make safe."""
    for uid in (job.uid, job.name, *(run.uid for run in job.runs)):
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", uid):
            raise ValueError(f"an id holds letters, digits and -._ only, not {uid!r}")
    if not job.directory.startswith("/") or set(":,") & set(job.directory):
        # Runtimes separate the parts of a bind by colons and commas, without any quoting.
        raise ValueError(f"a job's directory is absolute, without : and , but {job.directory!r}")
    if job.runs and job.steps:
        raise ValueError("a job holds runs or steps, not both")
    for name, _ in job.files:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
            raise ValueError(f"a file that is sent has a plain name, not {name!r}")
    for name, _ in job.sent:
        if why := why_no_file_name(name):
            raise ValueError(why)
    for run in job.runs:
        for path in run.segment.earlier if run.segment else ():
            if not path.startswith("/") or set(":,") & set(path):
                raise ValueError(f"a run's directory is absolute, without : and , but {path!r}")
        if run.data != job.data or (run.data and why_no_data_path(run.data.path)):
            raise ValueError(f"no job can read the data set {run.data!r}")
        if run.code != job.code or (run.code and why_no_data_path(run.code.path)):
            raise ValueError(f"no job can read the code {run.code!r}")
        runtime = RUNTIMES[run.environment.runtime]()
        if refusals := runtime.find_refusals(run.environment.mode, run.environment.binds):
            raise ValueError(" ".join(refusals.values()))
        for name, _ in run.environment.variables:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                raise ValueError(f"a variable cannot be called {name!r}")
