"""What stands for each environment of a plan on the cluster that was chosen, or what is missing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from experiments.images import staging
from experiments.images.architectures import read_architecture
from experiments.images.image_imports import request_from_registry
from experiments.images.staging import is_available
from experiments.models import (
    Cluster,
    Environment,
    Image,
    ImageImport,
    Runtime,
    StagedImage,
    User,
)
from experiments.models.images import DEFAULT_ARCHITECTURE
from experiments.planning.freeze import freeze_environment
from experiments.reproductions.frozen_plans import EnvironmentSpec
from runners.errors import Refused
from runners.images.formats import FORMATS
from runners.images.references import parse_reference
from runners.runtimes import RUNTIMES

State = StagedImage.State
NEW = "new"
"""In a form: make an environment, in place of one that is there."""
SETTINGS = {
    "mode": "mode",
    "image_format": "form of the image",
    "python": "interpreter",
    "binds": "bound folders",
    "variables": "variables",
    "setup_lines": "set-up lines",
}
"""What of an environment may differ from the plan, and how sentences call it."""
HARMLESS = ("setup_lines",)
"""How a cluster makes a runtime ready is its own matter: what differs in it alone fits."""


@dataclass(frozen=True)
class Place:
    """One environment of the plan on the cluster: a row, or what has to be done for one."""

    spec: EnvironmentSpec
    candidates: list[Environment]
    """Rows that a person may choose, those that fit best first."""
    chosen: Environment | None = None
    """What it runs in: a row of the catalogue, or one that would be made."""
    image: Image | None = None
    to_fetch: str = ""
    """The reference by which the image is to be fetched; "" where Tare has it."""
    to_stage: tuple[str, str] = ("", "")
    """The form and mode in which the image is to be staged; empty where it is."""
    waits: str = ""
    """What is under way, as a sentence: until it has ended nothing can be launched."""
    problem: str = ""
    """What forbids a launch, with how to go on."""
    differences: list[str] = field(default_factory=list)

    @property
    def is_ready(self) -> bool:
        return self.chosen is not None and not (self.problem or self.waits or self.has_to_do)

    @property
    def is_new(self) -> bool:
        """Return whether its environment would be made."""
        return self.chosen is not None and self.chosen.pk is None

    @property
    def has_to_do(self) -> bool:
        """Return whether its image is to be fetched or staged before."""
        return bool(self.to_fetch or self.to_stage[0])


def find_places(
    specs: Sequence[EnvironmentSpec],
    cluster: Cluster,
    person: User,
    choices: Mapping[str, str],
    *,
    is_same_cluster: bool,
    may_furnish: bool,
) -> list[Place]:
    """Return what stands for each environment of a plan on a cluster.

    `choices` is what a person has chosen, by the key of the environment: the key of a row, or NEW.
    """
    visible = Environment.objects.visible_to(person).filter(cluster=cluster, recorded_tool="")
    rows = list(visible.select_related("runtime", "staged_image__image", "cluster").order_by("pk"))
    runtimes = list(cluster.runtimes.order_by("pk"))
    taken: set[int] = set()
    places: list[Place] = []
    for spec in specs:
        candidates = _list_candidates(spec, rows, taken, is_same_cluster=is_same_cluster)
        choice = choices.get(spec.key, "")
        place = _find_place(spec, candidates, choice, cluster, runtimes, person)
        if place.is_new and not may_furnish:
            problem = (
                f"{spec.label}: {cluster} has no such environment that you may view, and you may "
                "not make one there. Ask who administers the cluster."
            )
            place = Place(spec, candidates, problem=problem)
        if place.chosen and place.chosen.pk:
            taken.add(place.chosen.pk)
        places.append(place)
    return places


def list_differing(spec: EnvironmentSpec, row: Environment) -> list[str]:
    """Return which settings of a row are others than in the plan, by their names in SETTINGS."""
    frozen = freeze_environment(row)
    frozen["variables"] = dict(frozen["variables"])
    return [name for name in SETTINGS if frozen[name] != getattr(spec, name)]


def _list_candidates(
    spec: EnvironmentSpec,
    rows: Sequence[Environment],
    taken: Collection[int],
    *,
    is_same_cluster: bool,
) -> list[Environment]:
    """Return the rows with the same runtime and image, those with the same settings first."""
    fitting = []
    for row in rows:
        staged = row.staged_image
        digest = staged.image.digest if staged else ""
        is_own = is_same_cluster and str(row.pk) == spec.key
        if row.pk in taken or row.kind != spec.runtime or digest != spec.image_digest:
            continue
        if row.copy_of_id and not is_own:  # an A/A copy is of its own experiments alone
            continue
        differing = [name for name in list_differing(spec, row) if name not in HARMLESS]
        fitting.append((len(differing), not is_own, row.name != spec.label, row.pk, row))
    return [row for *_, row in sorted(fitting, key=lambda entry: entry[:4])]


def _find_place(
    spec: EnvironmentSpec,
    candidates: list[Environment],
    choice: str,
    cluster: Cluster,
    runtimes: Sequence[Runtime],
    person: User,
) -> Place:
    chosen = next((row for row in candidates if str(row.pk) == choice), None)
    if chosen is None and choice != NEW and candidates:
        best = candidates[0]
        differing = [name for name in list_differing(spec, best) if name not in HARMLESS]
        if not differing or spec.is_bare_metal:
            chosen = best
    if chosen:
        differences = [
            f"{spec.label} runs in {chosen}, with another value of {SETTINGS[name]}."
            for name in list_differing(spec, chosen)
        ]
        return _wait_for_image(Place(spec, candidates, chosen, differences=differences))
    if spec.is_bare_metal:
        return Place(
            spec,
            candidates,
            _make_environment(spec, cluster, None, None),
            differences=[
                f"{spec.label} is made anew on {cluster}, with the interpreter {spec.python}: what "
                "software it has there is not known before it is inspected."
            ],
        )
    runtime = next((row for row in runtimes if row.kind == spec.runtime), None)
    label = RUNTIMES[spec.runtime].label
    if runtime is None:
        return Place(
            spec,
            candidates,
            problem=f"{spec.label} is started by {label}, which {cluster} does not have. Add the "
            "runtime to the cluster, or choose another cluster.",
        )
    return _find_image(Place(spec, candidates), runtime, person)


def _wait_for_image(place: Place) -> Place:
    staged = place.chosen.staged_image if place.chosen else None
    if staged is None or staged.state == State.READY:
        return place
    text = f"{place.spec.label}: {staged} is {staged.state}."
    if staged.state == State.STAGING:
        return replace(place, waits=text)
    return replace(place, problem=f"{text} Stage it again on the page of the image.")


def _find_image(place: Place, runtime: Runtime, person: User) -> Place:
    """Return the place of an environment that is to be made of its image, wherever that is."""
    spec, cluster = place.spec, runtime.cluster
    image = Image.objects.visible_to(person).filter(digest=spec.image_digest).first()
    if image is None:
        return replace(
            place,
            problem=f"{spec.label}: no image with the digest {spec.image_digest} is in the "
            "catalogue. Add it from its registry, by a reference that ends in "
            f"@{spec.image_digest}, or from its file: the digest tells that it is the same one.",
        )
    place = replace(place, image=image)
    formats = [name for name in RUNTIMES[spec.runtime].formats if name in FORMATS]
    states = (State.READY, State.STAGING)
    forms = image.staged.filter(cluster=cluster, format__in=formats, state__in=states)
    usable = sorted(
        (row for row in forms if not FORMATS[row.format].by_mode or row.mode == spec.mode),
        key=lambda row: (row.state != State.READY, row.format != spec.image_format, row.pk),
    )
    if not usable:
        return _stage_or_fetch(place, image, runtime)
    staged = usable[0]
    return replace(
        place,
        chosen=_make_environment(spec, cluster, runtime, staged),
        waits="" if staged.state == State.READY else f"{spec.label}: {staged} is {staged.state}.",
        differences=_list_new_differences(spec, runtime, staged.format),
    )


def _stage_or_fetch(place: Place, image: Image, runtime: Runtime) -> Place:
    """Return the place of an image that is not on the cluster in any form of use."""
    spec, cluster = place.spec, runtime.cluster
    form, mode = _choose_form(spec, cluster)
    if not form:
        why = staging.why_not_form(cluster, spec.image_format, spec.mode)
        problem = f"{spec.label}: its image cannot be staged on {cluster}. {why}"
        return replace(place, problem=problem)
    place = replace(
        place,
        chosen=_make_environment(spec, cluster, runtime, None),
        differences=_list_new_differences(spec, runtime, form),
    )
    if is_available(image):
        return replace(place, to_stage=(form, mode))
    reference = make_reference(image)
    if not reference:
        return replace(
            place,
            problem=f"{spec.label}: Tare has no copy of {image} and knows no registry that has it. "
            "Add its file, or its reference in a registry: the digest tells that it is the same.",
        )
    states = (ImageImport.State.WAITING, ImageImport.State.UNDER_WAY)
    if ImageImport.objects.filter(reference=reference, state__in=states).exists():
        return replace(place, waits=f"{spec.label}: {image} is being fetched.")
    return replace(place, to_fetch=reference)


def make_reference(image: Image) -> str:
    """Return by which reference the image is fetched from its registry; "" if none is known."""
    if image.kind != Image.Kind.OCI:
        return ""
    try:
        parsed = parse_reference(image.reference)
    except Refused:
        return ""
    return f"{parsed.host}/{parsed.repository}@{image.digest}"


def _choose_form(spec: EnvironmentSpec, cluster: Cluster) -> tuple[str, str]:
    """Return the form and mode in which the cluster can stage the image, as in the plan if so."""
    formats = RUNTIMES[spec.runtime].formats
    possible = [
        (form, mode)
        for form, mode, _ in staging.list_forms(cluster)
        if form in formats and mode in ("", spec.mode)
    ]
    same = [entry for entry in possible if entry[0] == spec.image_format]
    return (same or possible or [("", "")])[0]


def _make_environment(
    spec: EnvironmentSpec, cluster: Cluster, runtime: Runtime | None, staged: StagedImage | None
) -> Environment:
    """Return an environment with the plan's settings, not stored.

    Set-up lines name modules of the first cluster, and are shell that its administrators wrote:
    they are not taken along.
    """
    return Environment(
        name=spec.label[:100],
        cluster=cluster,
        runtime=runtime,
        staged_image=staged,
        mode=spec.mode,
        python=spec.python,
        binds=spec.binds,
        variables=spec.variables,
    )


def _list_new_differences(spec: EnvironmentSpec, runtime: Runtime, form: str) -> list[str]:
    differences = []
    if form != spec.image_format:
        differences.append(
            f"{spec.label}: the image is staged as {form}, and was {spec.image_format}."
        )
    own = [line for line in runtime.setup_lines.splitlines() if line.strip()]
    if spec.setup_lines != own:
        differences.append(
            f"{spec.label} is made on {runtime.cluster} without the plan’s set-up lines."
        )
    return differences


def prepare(place: Place, cluster: Cluster, person: User) -> str:
    """Request what the place lacks: the image by its digest, or its form on the cluster.

    Return what was requested, as a sentence; "" where nothing was to be done. Raises NotDone.
    """
    if place.to_fetch:
        architecture = read_architecture(place.image) if place.image else ""
        request_from_registry(
            place.to_fetch, person, architecture=architecture or DEFAULT_ARCHITECTURE
        )
        return f"{place.to_fetch} is being fetched."
    form, mode = place.to_stage
    if form and place.image:
        staged = staging.stage(place.image, cluster, form, person, mode=mode)
        return f"{staged} is being staged."
    return ""
