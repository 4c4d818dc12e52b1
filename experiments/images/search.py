"""The search for images by their names, digests, systems, frameworks, packages and labels."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import F, Func, JSONField, Q, QuerySet, TextField, Value
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast
from django.db.models.lookups import Regex

from experiments.models import Image

MOST_TERMS = 8
MOST_PACKAGES = 4  # of one image that a list names
COLUMNS = ("reference", "operating_system", "framework", "mpi")


@dataclass(frozen=True)
class Term:
    """One term of a search: `numpy`, or `numpy 2.4`, which matches 2.4 and 2.4.x."""

    name: str
    version: str = ""

    @property
    def spellings(self) -> list[str]:
        """Return the ways to write a package of this name: as typed, or as pip writes it."""
        normal = re.sub(r"[-_.]+", "-", self.name).lower()
        return sorted({self.name, self.name.lower(), normal})

    @property
    def condition(self) -> Q:
        """Return the condition that an image must meet."""
        condition = Q(digest__startswith=self.name) | Q(digest__startswith=f"sha256:{self.name}")
        for column in COLUMNS:
            condition |= self._in_column(column)
        if self.version:
            pattern = rf"(^|[ :]){re.escape(self.version)}([^0-9]|$)"
            for name in self.spellings:
                condition |= Q(Regex(KeyTextTransform(name, "packages"), pattern))
            return condition
        for name in self.spellings:
            condition |= Q(packages_text__contains=_json(name).removesuffix('"'))  # a key begins so
        return condition | Q(labels_text__icontains=_json(self.name)[1:-1])

    def _in_column(self, column: str) -> Q:
        if not self.version:
            return Q(**{f"{column}__icontains": self.name})
        # The column may list several, separated by commas: the version must be of the same one.
        name, version = re.escape(self.name), re.escape(self.version)
        return Q(**{f"{column}__iregex": rf"{name}([^,]*[^0-9.,])?{version}([^0-9]|$)"})


def parse_terms(text: str) -> list[Term]:
    """Read `numpy 2.4, debian`: a word that begins with a digit is the version of the one before.

    `numpy==2.4` and `numpy=2.4` mean the same.
    """
    parsed: list[Term] = []
    for word in re.split(r"[\s,=]+", text.replace("\0", "")):
        previous = parsed[-1] if parsed else None
        if (
            re.match(r"\d", word)
            and previous
            and not previous.version
            and previous.name[0].isalpha()
        ):
            parsed[-1] = Term(previous.name, word)
        elif word:
            parsed.append(Term(word))
    return parsed[:MOST_TERMS]


def search(rows: QuerySet[Image], text: str) -> QuerySet[Image]:
    """Return the images that have all of the text's terms.

    The search runs once, here, so that counting and paging need not unpack all package lists.
    """
    wanted_terms = parse_terms(text)
    if not wanted_terms:
        return rows
    # The JSON objects as texts: compared in the database, not fetched.
    matching = rows.order_by().alias(
        packages_text=Cast("packages", TextField()), labels_text=Cast("labels", TextField())
    )
    for term in wanted_terms:
        matching = matching.filter(term.condition)
    return rows.filter(pk__in=list(matching.values_list("pk", flat=True)))


def find_packages(images: Iterable[Image], text: str) -> dict[int, list[str]]:
    """Return, by image key, `name version` of the packages whose names begin with a term."""
    names = {name for term in parse_terms(text) for name in term.spellings}
    if not names:
        return {}
    name_conditions = " || ".join(f"@.key starts with {_json(name)}" for name in sorted(names))
    matching_pairs = Func(
        F("packages"),
        Value(f"$.keyvalue() ? ({name_conditions})"),
        function="jsonb_path_query_array",
        template="%(function)s(%(expressions)s::jsonpath)",
        output_field=JSONField(),
    )
    rows = Image.objects.filter(pk__in=[image.pk for image in images]).values_list(
        "pk", matching_pairs
    )
    return {
        pk: [f"{pair['key']} {pair['value']}" for pair in pairs[:MOST_PACKAGES]]
        for pk, pairs in rows
        if pairs
    }


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
