"""Groups of functions of the API, which share what they have in common.

django-ninja makes a class for each status that a function may answer, and for the parameters of
each address. Each is 17 kB, with the schema that pydantic compiles, and 240 functions made 1,400,
most of them the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import ninja

Model = Any
"""A class that django-ninja has made."""

_response_models: dict[Any, Model] = {}
_path_models: dict[str, Model] = {}


class Router(ninja.Router):
    """A group of functions whose models are those of other groups, where they are the same."""

    def add_api_operation(  # type: ignore[override]  # all functions of this API name their answers
        self,
        path: str,
        methods: list[str],
        view_func: Callable[..., Any],
        *,
        response: Mapping[int, Any],
        **more: Any,
    ) -> None:
        """Add the function that answers these methods of a path.

        The classes of errors in `response` are for readers of the code alone: errors are written by
        `problems.send_problem` and described by `document.complete_document`.
        """
        answers = {status: _leave_out_error(status, model) for status, model in response.items()}
        super().add_api_operation(path, methods, view_func, response=answers, **more)
        operation = self.path_operations[path].operations[-1]
        operation.response_models = {
            status: _share_response(model) for status, model in operation.response_models.items()
        }
        operation.models = operation.signature.models = [
            _share_path(model) for model in operation.models
        ]


def list_query_parameters(models: Sequence[Model]) -> frozenset[str]:
    """Return the names that a function takes in the query of its address."""
    of_query = (model for model in models if model.__ninja_param_source__ == "query")
    return frozenset(name for model in of_query for name in model.__ninja_flatten_map__)


def _leave_out_error(status: int, model: Model) -> Model:
    return None if status >= HTTPStatus.BAD_REQUEST else model


def _share_response(model: Model) -> Model:
    if model is None:
        return None
    return _response_models.setdefault(model.model_fields["response"].annotation, model)


def _share_path(model: Model) -> Model:
    """Return the first model with the same parts of an address, which are texts and numbers."""
    if model.__ninja_param_source__ != "path":
        return model
    return _path_models.setdefault(repr(model.model_fields), model)
