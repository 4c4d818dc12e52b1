"""The steps that read what software an environment holds. Pure: an environment in, steps out."""

from runners.jobs import EnvironmentSpec, Step
from runners.runtimes import RUNTIMES
from runners.scripts import behind_the_wall

# $0 is what is looked for, and $@ the command that finds it.
LOOK = '"$@" >/dev/null && exit; echo "On $(hostname) there is no $0."; exit 1'


def look_inside(environment: EnvironmentSpec, directory: str, mark: str) -> tuple[Step, ...]:
    """Leave in `directory`, a chore's, the result.json of payload/software.py, with `mark` in it.

    The environment's own set-up lines come before, as the job's.
    """
    program = [environment.python, f"{directory}/payload/software.py", f"--mark={mark}"]
    program.append(f"--output={directory}/result.json")
    look = Step(
        f"Reading what {environment.python} finds inside",
        tuple(behind_the_wall(environment, directory, program)),
    )
    if not environment.image_path:
        return (look,)
    present = RUNTIMES[environment.runtime]().present(environment)
    found = Step("Looking for the image", ("sh", "-c", LOOK, environment.image_path, *present))
    return found, look
