"""The file of a stored study, with the comments of the one that it was made of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace

from experiments.definitions.definition_problems import BadDefinition
from experiments.definitions.described_experiments import (
    JSON_ENDING,
    YAML_ENDING,
    CannotBeWritten,
    can_be_written,
    describe_experiment,
    leave_out_usual,
)
from experiments.definitions.study_reading import StudyDefinition, parse_study
from experiments.definitions.study_writing import (
    rewrite_study_yaml,
    to_study_document,
    write_study_json,
    write_study_yaml,
)
from experiments.models import Experiment, Study, User
from experiments.studies.study_members import read_members


def write_study_file(study: Study, user: User, ending: str = YAML_ENDING) -> str:
    """Return the file of a study that `user` may view. Raises CannotBeWritten.

    For the owner YAML is the text that the study was made of as long as nothing has changed, and
    keeps its comments after that. What has no file, or may not be viewed, is left out of it.
    """
    members = read_members(study, user)
    planned = [row for row in members.experiments if can_be_written(row)]
    left_out = members.hidden + len(members.experiments) - len(planned)
    if not planned:
        raise CannotBeWritten("None of its experiments has a file that you may have.")
    definition = describe_study(study, planned, user)
    if ending == JSON_ENDING:
        return write_study_json(definition)
    heading = f"{left_out} of its experiments not in this file: imported, or not yours to view."
    if left_out or not study.text or study.owner_id != user.pk:
        return write_study_yaml(definition, heading=heading if left_out else "")
    if study.described == hash_study(study, planned):
        return study.text
    return rewrite_study_text(study.text, definition)


def describe_study(
    study: Study, experiments: Sequence[Experiment], user: User | None = None
) -> StudyDefinition:
    """Return the definition of a study. Raises CannotBeWritten. `user` as for an experiment."""
    is_shown = user is None or user.pk == study.owner_id
    in_groups = is_shown and study.visibility == Study.Visibility.GROUPS
    names = study.groups.order_by("name").values_list("name", flat=True) if in_groups else ()
    return StudyDefinition(
        name=study.name,
        question=study.question,
        notes=study.notes.replace("\r\n", "\n").strip(),
        visibility=study.visibility if is_shown else "",
        groups=tuple(names),
        experiments=tuple(describe_experiment(row, user) for row in experiments),
    )


def keep_study_text(study: Study, experiments: Sequence[Experiment], text: str) -> None:
    """Keep the file that a study was made of, to be exported with its comments."""
    study.text, study.described = text, hash_study(study, experiments)
    study.save(update_fields=["text", "described"])


def hash_study(study: Study, experiments: Sequence[Experiment]) -> str:
    """Return a hash of all that the file of a study says."""
    document = to_study_document(describe_study(study, experiments))
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def rewrite_study_text(text: str, study: StudyDefinition) -> str:
    """Return the text of a file with what has changed since; what is usual only if unusual."""
    try:
        before = parse_study(text)
    except BadDefinition:
        return write_study_yaml(study)
    if len(before.experiments) == len(study.experiments):
        rows = map(leave_out_usual, before.experiments, study.experiments)
        study = replace(study, experiments=tuple(rows))
    usual = Study._meta.get_field("visibility").get_default()
    if not before.visibility and study.visibility == usual:
        study = replace(study, visibility="")
    return text if before.says_the_same(study) else rewrite_study_yaml(text, study)
