"""Finding images by what is in them: names, digests, systems, frameworks, packages, labels."""

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
MOST_FOUND = 4  # packages of one image that are named
COLUMNS = ("reference", "operating_system", "framework", "mpi")


@dataclass(frozen=True)
class Term:
    """One thing that is looked for: `numpy`, or `numpy 2.4` with every later part of 2.4."""

    name: str
    version: str = ""

    @property
    def spellings(self) -> list[str]:
        """How a package of this name may be written: as typed, or as pip writes it."""
        normal = re.sub(r"[-_.]+", "-", self.name).lower()
        return sorted({self.name, self.name.lower(), normal})

    @property
    def condition(self) -> Q:
        """What it asks of an image."""
        found = Q(digest__startswith=self.name) | Q(digest__startswith=f"sha256:{self.name}")
        for column in COLUMNS:
            found |= self._in_column(column)
        if self.version:
            pattern = rf"(^|[ :]){re.escape(self.version)}([^0-9]|$)"
            for name in self.spellings:
                found |= Q(Regex(KeyTextTransform(name, "packages"), pattern))
            return found
        for name in self.spellings:
            found |= Q(packages_text__contains=_json(name).removesuffix('"'))  # a key begins so
        return found | Q(labels_text__icontains=_json(self.name)[1:-1])

    def _in_column(self, column: str) -> Q:
        if not self.version:
            return Q(**{f"{column}__icontains": self.name})
        # Of several with commas between, the version of the same one.
        name, version = re.escape(self.name), re.escape(self.version)
        return Q(**{f"{column}__iregex": rf"{name}([^,]*[^0-9.,])?{version}([^0-9]|$)"})


def terms(text: str) -> list[Term]:
    """Read `numpy 2.4, debian`: a word that begins with a digit is the version of the one before.

    `numpy==2.4` and `numpy=2.4` mean the same.
    """
    found: list[Term] = []
    for word in re.split(r"[\s,=]+", text.replace("\0", "")):
        before = found[-1] if found else None
        if re.match(r"\d", word) and before and not before.version and before.name[0].isalpha():
            found[-1] = Term(before.name, word)
        elif word:
            found.append(Term(word))
    return found[:MOST_TERMS]


def search(rows: QuerySet[Image], text: str) -> QuerySet[Image]:
    """Return the images that have all of the text's terms.

    It looks once, here: to count and to cut a page need not unpack every package list again.
    """
    asked = terms(text)
    if not asked:
        return rows
    # Texts of the objects, which are compared in the database and not fetched.
    found = rows.order_by().alias(
        packages_text=Cast("packages", TextField()), labels_text=Cast("labels", TextField())
    )
    for term in asked:
        found = found.filter(term.condition)
    return rows.filter(pk__in=list(found.values_list("pk", flat=True)))


def packages_found(images: Iterable[Image], text: str) -> dict[int, list[str]]:
    """Return image's key -> `name version` of the packages that the text's terms begin."""
    names = {name for term in terms(text) for name in term.spellings}
    if not names:
        return {}
    begins = " || ".join(f"@.key starts with {_json(name)}" for name in sorted(names))
    found = Func(
        F("packages"),
        Value(f"$.keyvalue() ? ({begins})"),
        function="jsonb_path_query_array",
        template="%(function)s(%(expressions)s::jsonpath)",
        output_field=JSONField(),
    )
    rows = Image.objects.filter(pk__in=[image.pk for image in images]).values_list("pk", found)
    return {
        pk: [f"{pair['key']} {pair['value']}" for pair in pairs[:MOST_FOUND]]
        for pk, pairs in rows
        if pairs
    }


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
