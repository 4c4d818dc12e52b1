"""Every kind of operation that may be asked for is one that a worker knows how to do."""

from experiments import execution  # noqa: F401  (it registers the kinds)
from experiments.execution.operations import KINDS
from experiments.models import Operation


def test_every_kind_of_operation_has_its_class() -> None:
    assert set(KINDS) == set(Operation.Kind)
