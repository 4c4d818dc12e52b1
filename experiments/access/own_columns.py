"""Forms that write what they change of a stored row, and no other column."""

from __future__ import annotations

from typing import Any

from django import forms
from django.db.models import Model


class OwnColumns(forms.BaseModelForm):  # type: ignore[type-arg]
    """A form of a row that workers and other people write, too.

    Django's own saves a row as it was when the request began: a lease, a digest, a new key, a stop
    or somebody's other change that was stored meanwhile would be undone.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._columns_as_read = read_columns(self.instance)

    def save(self, commit: bool = True) -> Any:
        """Store a valid form. Raises ValueError where it is not valid."""
        row = self.instance
        if not commit or row._state.adding:
            return super().save(commit)
        super().save(commit=False)
        before, after = self._columns_as_read, read_columns(row)
        row.save(update_fields=[name for name in after if after[name] != before.get(name)])
        self.save_m2m()
        return row


def read_columns(row: Model) -> dict[str, Any]:
    """Return the values of a row by the names of its columns, without those not fetched yet."""
    return {
        field.name: row.__dict__[field.attname]
        for field in row._meta.concrete_fields
        if field.attname in row.__dict__
    }


def list_judged_columns(form: forms.BaseModelForm) -> list[str]:  # type: ignore[type-arg]
    """Return the names of the columns that a valid form of the administration has judged."""
    judged = {name for name in form.cleaned_data if not form.fields[name].disabled}
    return [field.name for field in form.instance._meta.concrete_fields if field.name in judged]
