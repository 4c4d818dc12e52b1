"""Functions of the API share their models, and addresses take what the document says."""

from __future__ import annotations

from collections import defaultdict

from dashboard.api.addresses import _list_methods
from dashboard.api.api import api


def test_no_model_is_made_for_errors_and_none_twice() -> None:
    """Each is 17 kB in every web process: errors alone were 900."""
    models = defaultdict(set)
    for _, operation in api.list_operations():
        for status, model in operation.response_models.items():
            assert model is None or status < 400, operation.view_func
            if model is not None:
                models[model.model_fields["response"].annotation].add(model)
    assert len(models) > 50
    assert [kind for kind, made in models.items() if len(made) > 1] == []


def test_each_address_takes_the_methods_and_parameters_of_the_document() -> None:
    documented = {
        path: {
            method.upper(): {
                parameter["name"]
                for parameter in operation["parameters"]
                if parameter["in"] == "query"
            }
            for method, operation in operations.items()
        }
        for path, operations in api.get_openapi_schema(path_prefix="")["paths"].items()
    }
    taken = {f"/{route.lstrip('/')}": methods for route, methods in _list_methods(api).items()}
    assert taken == documented


def test_the_document_is_kept_as_it_is_sent() -> None:
    first, second = (api.answer_document(None).content for _ in range(2))  # type: ignore[arg-type]
    assert first is not None
    assert first == second
    assert b'"/api/v1/experiments/{pk}"' in first
