"""Anonymous pages: replace names that tell who made an experiment, and where.

Each name and each directory gets a number, the same everywhere. A text is replaced if it equals a
name in the database, or looks like a home or work directory; a name that somebody has typed into a
question is replaced only if it is also an account's, a person's or a directory's.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from urllib.parse import quote

from django.db import connection
from django.db.models import Count, Max, Q
from django.utils.text import slugify

from experiments.access.machine_names import NODE_KEYS, compile_machine_pattern, number_machines
from experiments.models import Credential, Event, Experiment, PublishedTable, User
from runners.code_copies import COMMIT, REPOSITORY

SHORT = 3
"""Names of up to so many characters are replaced as whole words only: they occur in other words."""
LONGEST_SLUG = 50
NAME_KEYS = ("USER", "LOGNAME", "USERNAME", "SUDO_USER", "SLURM_JOB_USER", "SGE_O_LOGNAME")
NOBODY = {"root", "nobody"}
PATH_KEYS = ("HOME", "PWD", "OLDPWD", "TMPDIR", "SCRATCH", "WORK", "SGE_O_HOME", "SLURM_SUBMIT_DIR")
COMMON_DIRECTORIES = {"/", "/tmp", "/root", "/home", "/var/tmp", "/dev/shm"}  # noqa: S108
COMMON_DIRECTORIES |= {"/data", "/datasets", "/scratch", "/work", "/projects", "/mnt", "/srv"}
# Folders in which sites keep people's directories; paths are hidden up to the person's own.
PEOPLES_DIRECTORIES = re.compile(
    r"(?:/[\w.+@-]+){0,8}?/(?:homes?|Users|users|scratch|work|workspace|projects?)/[\w.+@-]+"
)

LAST_LONG = 0xFB17
_LONG = (letter for letter in map(chr, range(LAST_LONG + 1)) if len(letter.casefold()) > 1)
LONG_LETTERS = re.compile(f"[{''.join(_LONG)}]")
"""Letters that become several ones where case does not count, the last of them `LAST_LONG`."""


class Anonymity:
    """Names and directories to hide. `hide(text)` does so in any text, `hide_in_page` in HTML.

    `machines` are names of nodes, hosts, partitions and clusters, each with its replacement, and
    `sources` what tells where code comes from.
    """

    def __init__(
        self,
        names: Iterable[str],
        paths: Iterable[str],
        machines: Mapping[str, str] | None = None,
        sources: Mapping[str, str] | None = None,
    ) -> None:
        self._hidden: dict[str, str] = {}
        self._patterns: dict[str, str] = {}
        for kind, texts in (("directory", paths), ("account", names)):
            longest_first = sorted(set(texts), key=lambda text: (-len(text), text))
            for number, text in enumerate(longest_first, start=1):
                replacement = f"/{kind}-{number}" if kind == "directory" else f"{kind}-{number}"
                for spelling in _spellings(text):
                    self._hidden.setdefault(spelling.casefold(), replacement)
        for text in sorted(sources or {}, key=lambda text: (-len(text), text)):
            for spelling in _spellings(text):
                self._hidden.setdefault(spelling.casefold(), (sources or {})[text])
        for text in sorted(machines or {}, key=lambda text: (-len(text), text)):
            for folded in (spelling.casefold() for spelling in _spellings(text)):
                if folded not in self._hidden:
                    self._hidden[folded] = (machines or {})[text]
                    self._patterns[folded] = compile_machine_pattern(folded, self._hidden[folded])

    @property
    def identity(self) -> str:
        """Return a hash of what is hidden, and by what it is replaced."""
        hidden = json.dumps([self._hidden, self._patterns], sort_keys=True)
        return hashlib.sha256(hidden.encode()).hexdigest()

    def hide(self, text: str) -> str:
        return self._hide(text, self._pattern_for(text))

    def hide_in_page(self, page: str) -> str:
        """Hide names in the text of a page and in attributes that are shown or read out.

        Addresses and classes stay.
        """
        pattern = self._pattern_for(page)
        parts = re.split(r"(<[^>]*>)", page)
        return "".join(
            SHOWN_ATTRIBUTES.sub(lambda match: match[1] + self._hide(match[2], pattern), part)
            if part.startswith("<")
            else self._hide(part, pattern)
            for part in parts
        )

    def _pattern_for(self, text: str) -> re.Pattern[str] | None:
        """Return a pattern of the hidden names that occur in a text; None if none does."""
        folded = text.casefold()
        patterns = [
            self._patterns.get(spelling) or _pattern(spelling)
            for spelling in self._hidden
            if spelling in folded
        ]
        return re.compile("|".join(patterns), re.IGNORECASE) if patterns else None

    def _hide(self, text: str, pattern: re.Pattern[str] | None) -> str:
        if pattern and LONG_LETTERS.search(text):
            text = self._hide_in_folded(text, pattern)
        elif pattern:
            text = pattern.sub(self._replacement, text)
        return PEOPLES_DIRECTORIES.sub("/directory", text)

    def _hide_in_folded(self, text: str, pattern: re.Pattern[str]) -> str:
        """Hide names in a text with letters such as ß, which `re` takes for no "ss".

        They are found in the text without its case, and replaced in the text itself.
        """
        places = [place for place, letter in enumerate(text) for _ in letter.casefold()]
        parts, end = [], 0
        for match in pattern.finditer(text.casefold()):
            start = max(places[match.start()], end)  # where two share a letter
            parts += [text[end:start], self._replacement(match)]
            end = places[match.end() - 1] + 1
        return "".join([*parts, text[end:]])

    def _replacement(self, match: re.Match[str]) -> str:
        # Some letters are equal to two others for `re`, and to one of them for `casefold`.
        folded = match[0].casefold()
        name = folded if folded in self._hidden else folded.partition(".")[0]  # a node's domain
        return self._hidden.get(name, "account")


SHOWN_ATTRIBUTES = re.compile(
    r'(\s(?:title|value|alt|content|placeholder|aria-[a-z]+|data-[a-z-]+)=")([^"]*)'
)


def write_slug(question: str) -> str:
    """Return a question as names of files have it: "mullers-node" for "Müller’s node?".

    Names cannot be hidden in that, as they are spelled in another way, or cut.
    """
    return slugify(question)[:LONGEST_SLUG].strip("-")


def _spellings(text: str) -> list[str]:
    """Return the ways to write a text in plain text, HTML, JSON, addresses and LaTeX.

    Each with its accents as parts of letters, and as signs of their own.
    """
    forms = (text, unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text))
    spellings = (
        spelling
        for form in dict.fromkeys(forms)
        for spelling in (
            form,
            html.escape(form),
            json.dumps(form)[1:-1],
            quote(form),
            quote(form, ""),
            form.replace("_", r"\_"),
        )
    )
    return list(dict.fromkeys(spellings))


def _pattern(spelling: str) -> str:
    escaped = re.escape(spelling)
    if len(spelling) > SHORT and not spelling.isdecimal():
        return escaped
    return rf"(?<![\w.]){escaped}(?![\w.])"


def build_anonymity(
    experiments: Sequence[Experiment], tables: Sequence[PublishedTable] = ()
) -> Anonymity:
    """Return the `Anonymity` that hides who made these experiments and tables, and where."""
    names, paths, code = set[str](), set[str](), set[tuple[str, str]]()
    machines: dict[str, str] = {}
    experiments = _add_reproduced(experiments)
    for number, experiment in enumerate(experiments, start=1):
        names |= _list_accounts(experiment)
        if experiment.is_from_bundle:
            names |= _list_stated_names(experiment)
            machines |= _name_bundle(experiment, number)
        paths |= set(
            experiment.jobs.order_by().values_list("cluster__work_directory", flat=True).distinct()
        )
        paths.add(experiment.cluster.work_directory)
        paths |= _list_past_work_directories(experiment) | _list_data_paths(experiment)
        snapshots = experiment.runs.filter(snapshot__isnull=False)
        size = snapshots.aggregate(count=Count("pk"), newest=Max("snapshot"))
        of_jobs = experiment.jobs.aggregate(count=Count("snapshot"), newest=Max("snapshot"))
        accounts, directories, hosts = _names_in_snapshots(
            experiment.pk, *size.values(), *of_jobs.values()
        )
        names, paths = names | accounts, paths | directories
        machines = number_machines(experiment, sorted(hosts), known=machines)
        code |= _list_code(experiment)
    people = _list_people(experiments, tables)
    for person in people:
        names |= {person.username, person.get_full_name(), person.last_name, person.email}
        names.add(person.first_name)
    names_to_hide = {name for name in names if name and len(name) > 1 and name not in NOBODY}
    directories_to_hide = {path.rstrip("/") for path in paths} - COMMON_DIRECTORIES - {""}
    return Anonymity(names_to_hide, directories_to_hide, machines, _number_sources(code))


def _add_reproduced(experiments: Sequence[Experiment]) -> list[Experiment]:
    """Return experiments with those that they do again, whose machines and people they name."""
    firsts = [row.reproduces for row in experiments if row.reproduces_id]
    rows = {row.pk: row for row in [*experiments, *firsts] if row is not None}
    return list(rows.values())


def _list_people(experiments: Sequence[Experiment], tables: Sequence[PublishedTable]) -> list[User]:
    """Return the people who own, changed or waived something of these."""
    keys = {row.owner_id for row in experiments} | {row.owner_id for row in tables}
    for experiment in experiments:
        rows = Event.objects.filter(experiment=experiment, actor__isnull=False).order_by()
        keys |= set(rows.values_list("actor", flat=True).distinct())
        keys |= set(experiment.workloads.values_list("owner", flat=True))
        for path in ("owner", "staged_image__image__owner", "cluster__owner"):
            keys |= set(experiment.environments.values_list(path, flat=True))
        keys |= set(experiment.waivers.values_list("by", flat=True))
    return list(User.objects.filter(pk__in=keys - {None}))


def _list_stated_names(experiment: Experiment) -> set[str]:
    """Return the names of people that the bundle of another Tare has brought along."""
    stated = experiment.events.exclude(stated_by="").order_by()
    names = set(stated.values_list("stated_by", flat=True).distinct())
    return names | {experiment.imported_bundle.owner}


def _name_bundle(experiment: Experiment, number: int) -> dict[str, str]:
    """Return what tells which experiment of which site a bundle was, each with its replacement."""
    bundle = experiment.imported_bundle
    names = {
        bundle.origin: "an experiment of another site",
        bundle.file_name: f"bundle-{number}",
        bundle.sha256: f"bundle-{number}-sha256",
    }
    return {text: replacement for text, replacement in names.items() if text}


def _list_past_work_directories(experiment: Experiment) -> set[str]:
    """Return the directories in which jobs have left their files, wherever the cluster's was."""
    directories = experiment.jobs.exclude(directory="").order_by()
    return {
        directory.rpartition("/jobs/")[0]
        for directory in directories.values_list("directory", flat=True)
    }


DATA_PATHS = """
SELECT DISTINCT value #>> '{}'
FROM experiments_experiment, jsonb_path_query(plan, '$.workloads.*.data_set.path') AS value
WHERE id = %s
"""


def _list_data_paths(experiment: Experiment) -> set[str]:
    """Return where the data sets of a frozen plan lie on its cluster."""
    with connection.cursor() as cursor:
        cursor.execute(DATA_PATHS, [experiment.pk])
        return {text for (text,) in cursor.fetchall() if text and text.startswith("/")}


CODE = """
SELECT DISTINCT parameters ->> %s, parameters ->> %s
FROM experiments_experiment, jsonb_path_query(plan, '$.workloads.*.parameters') AS parameters
WHERE id = %s
"""
SHORT_COMMIT = 12
"""Digits by which pages and job scripts name a commit."""


def _list_code(experiment: Experiment) -> set[tuple[str, str]]:
    """Return address and commit of each git repository that a frozen plan names."""
    with connection.cursor() as cursor:
        cursor.execute(CODE, [REPOSITORY, COMMIT, experiment.pk])
        return {(address, commit) for address, commit in cursor.fetchall() if address and commit}


def _number_sources(code: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return what tells where code comes from, each with its replacement.

    A commit is found by search engines, with whoever has published it.
    """
    rows = sorted(code)
    addresses = sorted({address for address, _ in rows})
    sources = {text: f"repository-{number}" for number, text in enumerate(addresses, start=1)}
    for number, commit in enumerate(sorted({commit for _, commit in rows}), start=1):
        sources |= dict.fromkeys((commit, commit[:SHORT_COMMIT]), f"commit-{number}")
    return sources


def _list_accounts(experiment: Experiment) -> set[str]:
    """Return the accounts on the experiment's cluster and on its jump hosts."""
    clusters = {cluster.pk for cluster in experiment.cluster.list_hops()}
    keys = Credential.objects.filter(Q(clusters__in=clusters) | Q(owner=experiment.owner_id))
    return set(keys.values_list("user_name", flat=True))


@lru_cache(maxsize=64)
def _names_in_snapshots(pk: int, *sizes: int | None) -> tuple[set[str], set[str], set[str]]:
    """Return accounts, directories and hosts from the snapshots of all runs of one experiment.

    `sizes` tell how many there are and which is the newest, for the cache.
    """
    names, paths, hosts = (
        _values_in_snapshots(pk, keys) for keys in (NAME_KEYS, PATH_KEYS, NODE_KEYS)
    )
    return names, {path for path in paths if path.startswith("/")}, hosts


VALUES = """
SELECT DISTINCT value #>> '{}'
FROM experiments_snapshot, unnest(%s::jsonpath[]) AS path, jsonb_path_query(content, path) AS value
WHERE id IN (
    SELECT snapshot_id FROM experiments_run WHERE experiment_id = %s
    UNION SELECT snapshot_id FROM experiments_job WHERE experiment_id = %s
)
"""


def _values_in_snapshots(pk: int, keys: Sequence[str]) -> set[str]:
    """Return all texts under one of `keys` in an experiment's snapshots, at any depth."""
    with connection.cursor() as cursor:
        cursor.execute(VALUES, [[f"$.**.{key}" for key in keys], pk, pk])
        return {text for (text,) in cursor.fetchall() if text}
