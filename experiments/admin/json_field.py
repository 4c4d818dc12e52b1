"""A form's field for JSON that PostgreSQL can keep: what `json` fails at is a wrong value too."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms.fields import InvalidJSONInput


class PlainJSON(forms.JSONField):
    """Refuses deep nesting, numbers of thousands of digits, NaN, NUL and halves of characters.

    `kind` is what the column holds, a list of texts or a dict; None: anything.
    """

    kind: type | None = None

    def to_python(self, value: Any) -> Any:
        try:
            parsed = super().to_python(value)
            text = json.dumps(parsed, ensure_ascii=False, allow_nan=False)
            text.encode()
        except (RecursionError, ValueError):
            raise self._refusal(value) from None
        if "\\u0000" in text or not self._fits(parsed):
            raise self._refusal(value)
        return self.kind() if parsed is None and self.kind else parsed

    def _fits(self, parsed: Any) -> bool:
        if parsed is None or self.kind is None:
            return True
        if isinstance(parsed, list):
            return self.kind is list and all(isinstance(item, str) for item in parsed)
        return isinstance(parsed, self.kind)

    def _refusal(self, value: Any) -> ValidationError:
        message = self.error_messages["invalid"]
        return ValidationError(message, code="invalid", params={"value": value})

    def bound_data(self, data: Any, initial: Any) -> Any:
        """Return what was typed as text where it is refused: a page may not be able to hold it."""
        if data is not None and not self.disabled:
            try:
                self.to_python(data)
            except ValidationError:
                return InvalidJSONInput(data)
        return super().bound_data(data, initial)
