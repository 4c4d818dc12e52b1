"""The job script: what a reviewer reads, and that nothing typed is ever read by a shell."""

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners import launching
from runners.jobs import Launch, Step
from runners.journals import read_lines
from runners.payload import read_payload_files
from runners.runtimes import RUNTIMES
from runners.schedulers import SCHEDULERS
from runners.scripts import TEMPLATE, quote, render, render_job_files, wrap_program
from tests.runners.golden_scripts import BARE_METAL, FOLDER, SIF, block, scripts, typical

SHELLCHECK = Path(sys.executable).with_name("shellcheck")
text = st.text(st.characters(codec="utf-8", exclude_characters="\0"))


@pytest.mark.parametrize("name", sorted(scripts()))
def test_golden_scripts_are_what_is_rendered(name):
    assert (FOLDER / name).read_text() == scripts()[name]


@pytest.mark.parametrize(
    ("variables", "hosts", "expected"),
    [
        ({"SLURM_JOB_NODELIST": "n[1-2]"}, "n1\nn2\n", ["n1", "n2"]),
        ({"SLURM_JOB_NODELIST": "n[1-2]"}, 'n1"\nn;2\n', ["n1_", "n_2"]),
        ({"SLURM_JOB_NODELIST": "n[1-2]"}, "", None),
        ({"SLURM_JOB_NODELIST": "n[1-2]"}, "n" * 70_000 + "\n", None),
        ({"PE_HOSTFILE": "hosts"}, "", ["a.site", "b.site"]),
        ({"PE_HOSTFILE": "none"}, "", None),
        ({}, "", None),
    ],
)
def test_the_nodes_of_a_job_are_written_into_its_journal(tmp_path, variables, hosts, expected):
    """`scontrol` here prints what is asked for; a lab's test has the true one."""
    (tmp_path / "listed").write_text(hosts)
    tool = tmp_path / "scontrol"
    tool.write_text(f"#!/bin/sh\n[ \"$1 $2\" = 'show hostnames' ] && cat '{tmp_path}/listed'\n")
    tool.chmod(0o755)
    (tmp_path / "hosts").write_text("a.site 2 q@a UNDEFINED\nb.site 2 q@b UNDEFINED\n")
    text = "\n".join(
        re.search(rf"^{name}\(\) {{.*?^}}$", source, re.DOTALL | re.MULTILINE)[0]
        for name, source in (
            ("now", TEMPLATE.read_text()),
            ("journal", TEMPLATE.read_text()),
            ("name_nodes", launching.TEMPLATE.read_text()),
        )
    )
    script = f"set -u; job='{tmp_path}' node=n1\n{text}\nname_nodes\n"
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", **variables}
    subprocess.run(["bash", "-c", script], env=environment, cwd=tmp_path, check=True)
    journal = tmp_path / "journal.ndjson"
    lines, damage = read_lines(journal.read_bytes()) if journal.exists() else ([], [])
    assert damage == []
    assert [line["nodes"] for line in lines] == ([expected] if expected else [])


def test_every_golden_script_is_rendered():
    kept = (path for path in FOLDER.rglob("*") if path.is_file())
    assert {str(path.relative_to(FOLDER)) for path in kept} == set(scripts())


ALL_RUNTIMES = {"all": render(block(*map(typical, RUNTIMES)), SCHEDULERS["slurm"]())}
WHOLE = {name: text for name, text in scripts().items() if "/" not in name} | ALL_RUNTIMES


@pytest.mark.parametrize("script", WHOLE.values(), ids=WHOLE)
def test_shellcheck_passes_on_golden_scripts(script):
    done = subprocess.run([SHELLCHECK, "-"], input=script, capture_output=True, text=True)
    assert done.stdout == ""
    assert done.returncode == 0


@given(st.lists(text, max_size=8))
def test_quoted_words_mean_what_was_typed(words):
    script = "printf '%s\\0' " + " ".join([*map(quote, words), "end"])
    assert "\r" not in script
    assert len(script.split("\n")) == 1
    printed = subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE, check=True).stdout
    assert printed.decode().split("\0")[:-1] == [*words, "end"]


@pytest.mark.parametrize("typed", ["a\0b", "\ud800"])
def test_what_no_program_can_be_given_is_refused(typed):
    with pytest.raises(ValueError, match=r"NUL|surrogates"):
        quote(typed)


@given(label=text, value=text, image=text, parameter=text)
def test_nothing_typed_reaches_a_shell_unquoted(label, value, image, parameter):
    """Whatever is typed, bash reads a script with the same words in it and executes none of them.

    The script is not run: its assignments are evaluated where no command can be found.
    """
    environment = replace(SIF, label=label, image_path=image, variables=(("TYPED", value),))
    job = block(environment)
    run = replace(job.runs[0], parameters={"name": parameter})
    script = render(replace(job, runs=(run,)), SCHEDULERS["slurm"]())
    lines = script.split("\n")
    begin = next(number for number, line in enumerate(lines) if line.startswith("# Run 1 of 1"))
    end = next(number for number, line in enumerate(lines) if line.startswith("run "))
    assignments = lines[begin:end]
    assert [line.partition("=")[0] for line in assignments[1:]] == [
        *("setup", "limit", "runtime", "image", "present", "version"),
        *("wall", "variables", "program"),
    ]
    shown = '\nprintf "%s\\0" "$image" "${present[@]}" "${wall[@]: -1}" "${variables[@]: -1}"'
    done = subprocess.run(
        ["/bin/bash", "-r", "-c", "\n".join(assignments) + shown],
        capture_output=True,
        env={"PATH": "/nowhere"},
    )
    assert done.stderr == b""
    arguments = done.stdout.decode().split("\0")[:-1]
    assert arguments == [image, "test", "-e", image, image, f"TYPED={value}"]


def test_a_label_stays_in_its_comment():
    script = render(
        block(replace(BARE_METAL, label="x\ntouch /tmp/evil\r\n$(id)")), SCHEDULERS["slurm"]()
    )
    assert '# Run 1 of 1: blas, Bare metal "x\\ntouch /tmp/evil\\r\\n$(id)"\n' in script


def test_placeholders_in_typed_text_are_not_filled_in():
    script = render(
        block(replace(BARE_METAL, label="@runs@", python="@job_id@")), SCHEDULERS["slurm"]()
    )
    assert 'Bare metal "@runs@"' in script
    assert "program=(@job_id@ " in script


def test_set_up_lines_may_end_as_a_form_sends_them():
    script = render(block(replace(BARE_METAL, setup_lines=("a\r\nb\r",))), SCHEDULERS["slurm"]())
    assert r"setup=$'ulimit -s unlimited\na\nb'" in script


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"uid": "a b"}, "an id holds"),
        ({"name": "a\nb"}, "an id holds"),
        ({"directory": "relative/jobs/1"}, "absolute"),
        ({"directory": "/scratch/a:b/jobs/1"}, "absolute"),
    ],
)
def test_what_cannot_be_said_safely_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        render(replace(block(SIF), **change), SCHEDULERS["slurm"]())


def test_a_variable_has_a_name_that_programs_can_read():
    with pytest.raises(ValueError, match="cannot be called"):
        render(block(replace(SIF, variables=(("A=B", "c"),))), SCHEDULERS["slurm"]())


@pytest.mark.parametrize("directive", ["--comment=a\nrm -rf ~", "a\rb"])
def test_a_directive_with_a_line_break_is_refused(directive):
    job = block(SIF)
    job = replace(job, resources=replace(job.resources, directives=(directive,)))
    with pytest.raises(ValueError, match="one line"):
        render(job, SCHEDULERS["slurm"]())


def test_everything_that_a_job_needs_travels_with_it():
    job = block(BARE_METAL, SIF)
    run = replace(job.runs[1], parameters={"name": "Größe $(x)\n", "steps": 3})
    files = render_job_files(replace(job, runs=(job.runs[0], run)), SCHEDULERS["slurm"]())
    payload = {f"payload/{name}" for name in read_payload_files()}
    specs = {"runs/0-0c0de/spec.json", "runs/1-1c0de/spec.json"}
    assert set(files) == {"job.sh", *payload, *specs}
    assert "Größe".encode() in files["runs/1-1c0de/spec.json"]  # for whoever reads the file
    assert json.loads(files["runs/1-1c0de/spec.json"]) == {
        "schema": 1,
        "run": "1c0de",
        "environment": "NumPy 2.5, SIF",
        "workload": "blas",
        "parameters": {"name": "Größe $(x)\n", "steps": 3},
        "nodes": 1,
        "gpus": 2,
        "instances": 1,
    }


def test_what_users_send_travels_to_the_folder_of_their_program():
    job = block(BARE_METAL)
    run = replace(job.runs[0], workload="command", parameters={"argv": ["./a"]})
    job = replace(job, runs=(run,), sent=(("a", b"#!/bin/sh"),), files=(("input", b"1"),))
    files = render_job_files(job, SCHEDULERS["slurm"]())
    assert files["files/a"] == b"#!/bin/sh"
    assert files["files/tare.py"] == read_payload_files()["recorder.py"]
    assert files["input"] == b"1"
    assert "job.sh" in files


@pytest.mark.parametrize(("gpus", "flags"), [(0, 0), (1, 1), (2, 1)])
def test_a_container_is_given_gpus_if_the_job_has_one(gpus, flags):
    job = block(replace(SIF, label="Größe"))
    script = render(
        replace(job, resources=replace(job.resources, gpus_per_node=gpus)), SCHEDULERS["slurm"]()
    )
    assert script.count(" --nv ") == flags
    assert '"Größe"\n' in script  # for whoever reads the script


def test_what_a_runtime_cannot_do_is_refused_in_its_words():
    with pytest.raises(ValueError, match=r"^Apptainer has no mode 'P1'; its modes: "):
        render(block(replace(SIF, mode="P1")), SCHEDULERS["slurm"]())


def test_an_instance_is_told_its_share_of_the_gpus():
    job = replace(block(BARE_METAL), launch=Launch(instances=2))
    files = render_job_files(job, SCHEDULERS["slurm"]())
    text = files["runs/0-0c0de/spec.json"].decode()
    spec = json.loads(text)
    assert (spec["gpus"], spec["instances"], spec["nodes"]) == (1, 2, 1)
    assert '"gpus": 1,' in text  # a whole number, as the program expects it
    assert text.startswith('{\n  "schema": 1,\n')


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"uid": ""}, "an id holds letters, digits and -._ only, not ''"),
        ({"uid": "-a"}, "an id holds letters, digits and -._ only, not '-a'"),
        ({"name": "a/b"}, "an id holds letters, digits and -._ only, not 'a/b'"),
        (
            {"directory": "/a,b"},
            "a job's directory is absolute, without : and , but '/a,b'",
        ),
        ({"steps": (Step("Doing", ("true",)),)}, "a job holds runs or steps, not both"),
        ({"files": (("a/b", b""),)}, "a file that is sent has a plain name, not 'a/b'"),
        (
            {"sent": (("../a", b""),)},
            "A file that is sent has a plain name of letters, digits and . _ -, not '../a'.",
        ),
    ],
)
def test_a_refusal_says_what_is_wrong(change, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        render(replace(block(BARE_METAL), **change), SCHEDULERS["slurm"]())


def test_names_of_all_allowed_characters_are_not_refused():
    job = replace(block(BARE_METAL), uid="A9_.-", name="a", files=(("Z0_.-x", b""),))
    environment = replace(BARE_METAL, variables=(("_Az09", "1"), ("A", "2")))
    run = replace(job.runs[0], uid="0-._Z", environment=environment)
    script = render(replace(job, runs=(run,)), SCHEDULERS["slurm"]())
    assert "_Az09=1 A=2" in script


def test_a_program_beside_the_runs_has_the_variables_of_a_run():
    command = wrap_program(replace(SIF, variables=(("A", "1"),)), "/scratch/run", ["prog", "-x"])
    begin = command.index("/usr/bin/env")
    assert command[0] == "apptainer"
    assert {"--bind=/scratch/run:/scratch/run", "--pwd=/scratch/run"} <= set(command[:begin])
    assert "--nv" not in command
    assert command[begin + 1 :] == [
        "TARE_RUN=/scratch/run",
        "HOME=/scratch/run",
        "LANG=C.UTF-8",
        "PYTHONDONTWRITEBYTECODE=1",
        "PYTHONNOUSERSITE=1",
        "A=1",
        "prog",
        "-x",
    ]


@pytest.mark.parametrize("bash", ["", "unset EPOCHREALTIME;"])
def test_the_script_knows_the_time_also_by_an_old_bash(bash):
    now = re.search(r"^now\(\) \{.*?^\}\n", TEMPLATE.read_text(), re.DOTALL | re.MULTILINE)[0]
    began = time.time()
    script = f"{bash}{now}now; echo $moment"
    printed = subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE, check=True).stdout
    assert re.fullmatch(rb"\d+\.\d{6}\n", printed)
    assert began - 0.001 <= float(printed) <= time.time() + 0.001
