"""The steps that inspect the software of an environment. No I/O: an environment in, steps out."""

from collections.abc import Sequence

from runners.jobs import EnvironmentSpec, Step
from runners.runtimes import RUNTIMES
from runners.scripts import wrap_program

# $0 is the image's path or name, and $@ the command that succeeds if it exists.
LOOK = '"$@" >/dev/null && exit; echo "On $(hostname) there is no $0."; exit 1'


def inspect_software(
    environment: EnvironmentSpec, directory: str, mark: str, *, look_for: Sequence[str] = ()
) -> tuple[Step, ...]:
    """Return the steps that write the result.json of payload/software.py, with `mark` in it.

    It is written into `directory`, the operation's. The environment's set-up lines must be the
    job's. `look_for` are programs and absolute paths of which it says whether they are there.
    """
    program = [environment.python, f"{directory}/payload/software.py", f"--mark={mark}"]
    program.append(f"--output={directory}/result.json")
    program += [f"--look-for={word}" for word in look_for]
    inspection = Step(
        f"Reading what {environment.python} finds inside",
        tuple(wrap_program(environment, directory, program)),
    )
    if not environment.image_path:
        return (inspection,)
    present = RUNTIMES[environment.runtime]().build_presence_command(environment)
    presence_check = Step(
        "Looking for the image", ("sh", "-c", LOOK, environment.image_path, *present)
    )
    return presence_check, inspection
