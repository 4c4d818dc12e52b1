"""The steps that inspect the software of an environment. No I/O: an environment in, steps out."""

from collections.abc import Sequence

from runners.interpreters import has_python
from runners.jobs import EnvironmentSpec, Step
from runners.runtimes import RUNTIMES
from runners.scripts import wrap_program

# $0 is the image's path or name, and $@ the command that succeeds if it exists.
LOOK = '"$@" >/dev/null && exit; echo "On $(hostname) there is no $0."; exit 1'


def inspect_software(
    environment: EnvironmentSpec,
    directory: str,
    mark: str,
    *,
    look_for: Sequence[str] = (),
    root: str = "/",
) -> tuple[Step, ...]:
    """Return the steps that write the result.json of payload/software.py, with `mark` in it.

    Without Python inside it is that of payload/software_files.py.

    It is written into `directory`, the operation's. The environment's set-up lines must be the
    job's. `look_for` are programs and absolute paths of which it says whether they are there.
    Without Python the lists of packages below `root` are read.
    """
    payload = f"{directory}/payload"
    output = [f"--mark={mark}", f"--output={directory}/result.json"]
    if not has_python(environment.python):
        shell = ["/bin/sh", f"{payload}/software.sh", f"{directory}/inside", root, *look_for]
        reading = ["python3", f"{payload}/software_files.py", f"{directory}/inside", *output]
        inspection: tuple[Step, ...] = (
            Step(
                "Copying lists of packages from inside",
                tuple(wrap_program(environment, directory, shell)),
            ),
            Step("Reading them", tuple(reading)),
        )
    else:
        program = [environment.python, f"{payload}/software.py", *output]
        program += [f"--look-for={word}" for word in look_for]
        inspection = (
            Step(
                f"Reading what {environment.python} finds inside",
                tuple(wrap_program(environment, directory, program)),
            ),
        )
    if not environment.image_path:
        return inspection
    present = RUNTIMES[environment.runtime]().build_presence_command(environment)
    presence_check = Step(
        "Looking for the image", ("sh", "-c", LOOK, environment.image_path, *present)
    )
    return presence_check, *inspection
