"""Forms that write the columns of their fields, and no other column of a stored row."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django import forms


class OwnColumns(forms.BaseModelForm):  # type: ignore[type-arg]
    """A form of a row that workers and other people write, too.

    Django's own saves a row as it was when the request began: a lease, a digest, a new key or a
    stop that was stored meanwhile would be undone.
    """

    computed_columns: Collection[str] = ()
    """Columns without a field of the form, which it computes and stores."""

    def save(self, commit: bool = True) -> Any:
        """Store a valid form. Raises ValueError where it is not valid."""
        row = self.instance
        if not commit or row._state.adding:
            return super().save(commit)
        super().save(commit=False)
        row.save(update_fields=list_own_columns(self, self.computed_columns))
        self.save_m2m()
        return row


def list_own_columns(
    form: forms.BaseModelForm,  # type: ignore[type-arg]
    computed_columns: Collection[str] = (),
) -> list[str]:
    """Return the names of the columns that a valid form has judged, and of those it computes."""
    judged = {name for name in form.cleaned_data if not form.fields[name].disabled}
    names = judged | {*computed_columns}
    return [field.name for field in form.instance._meta.concrete_fields if field.name in names]
