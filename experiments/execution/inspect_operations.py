"""The operation that inspects an environment."""

from __future__ import annotations

from experiments.execution.operations import (
    KINDS,
    NotPossible,
    OperationKind,
    Work,
    name_operation_directory,
    parse_result,
)
from experiments.execution.specs import make_environment_spec
from experiments.models import Operation
from experiments.planning.freeze import freeze_environment
from experiments.presets.program_checks import list_words_to_look_for
from experiments.software import inspections, own_trees
from runners.records import Record
from runners.shapes import SOFTWARE
from runners.software import inspect_software

INSPECTION_SECONDS = 600


class Inspect(OperationKind):
    """Start the environment's own interpreter in it, and list the software that it finds."""

    def work(self, operation: Operation) -> Work:
        row = operation.environment
        if row is None:
            raise NotPossible("The environment that was to be inspected is gone.")
        spec = make_environment_spec(freeze_environment(row))
        directory = operation.directory or name_operation_directory(operation)
        words = list_words_to_look_for()
        mark = inspections.compute_fingerprint(row)
        tree = row.tree_of and own_trees.name_tree_folder(row.tree_of, row.cluster)
        root = f"{tree}/root" if tree else "/"
        steps = inspect_software(spec, directory, mark, look_for=words, root=root)
        return Work(steps, setup_lines=spec.setup_lines, seconds=INSPECTION_SECONDS)

    def finish(self, operation: Operation, problem: str, record: Record) -> str:
        if problem or operation.environment is None:
            return problem
        facts = parse_result(record, SOFTWARE)
        if not facts:
            return "The inspection ended well, but left nothing that can be read."
        inspections.keep_inspection(operation.environment, facts, facts["mark"], operation)
        return ""


KINDS[Operation.Kind.INSPECT] = Inspect()
