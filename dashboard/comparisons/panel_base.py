"""The base of all panels of a comparison's page, and which configurations a panel shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

from dashboard.drawings.axes_figure import AxesFigure
from dashboard.typed_requests import OpenRequest, parse_whole_number
from experiments.comparisons import Comparison, ExperimentComparison
from experiments.comparisons.published_tables import TableComparison

ALL = "all"
"""In an address: all sections, or all configurations."""
MOST_OPEN = 4
"""Groups whose plots and tables are seen at once; where there are more, each is opened by who wants
it, and on paper all are."""
Rows = list[dict[str, Any]]
Kind = TypeVar("Kind", bound=Comparison)


class Panel(Generic[Kind]):
    """One part of the page. Its template finds what `compute` returns as `content`."""

    name: ClassVar[str]
    heading: ClassVar[str] = ""
    label: ClassVar[str] = ""
    """Its name in the list of sections, where that is not its heading."""
    kind: ClassVar[type[Comparison]] = Comparison
    """Which comparisons have the panel: all, those of experiments, or those of tables."""
    in_csv: ClassVar[bool] = False
    """Whether the rows of its export stand in the CSV file too."""
    is_section: ClassVar[bool] = True
    """Whether it is opened from the list of sections, and not always seen."""
    at_once: ClassVar[int | None] = None
    """Of how many configurations it shows all; of more it shows one. None: always all."""

    @property
    def template(self) -> str:
        return f"comparisons/panels/{self.name}.html"

    def compute(self, comparison: Kind, request: OpenRequest) -> Any:
        """Return what the template shows; None where there is nothing to show."""
        raise NotImplementedError(f"{type(self).__name__} does not compute anything.")

    def describe(
        self, comparison: Kind, content: Any, hide: Callable[[str], str]
    ) -> AxesFigure | None:
        """Return its printed figure of a content that took long; None: of the comparison."""
        return None

    def is_offered(self, comparison: Kind) -> bool:
        """Return whether the list of sections has it; cheap, as every page asks every panel."""
        return True

    def count(self, comparison: Kind) -> int | None:
        """Return the number that stands beside its name in the list of sections."""
        return None

    def export(self, comparison: Kind) -> dict[str, Rows]:
        """Return rows by the key under which they stand in the JSON file."""
        return {}

    def latex(self, comparison: Kind) -> list[str]:
        """Return the lines of its part of the LaTeX file."""
        return []

    def read_configuration(self, comparison: Kind, request: OpenRequest) -> int | None:
        """Return the number (from 1) of the one configuration to show; None for all of them.

        `?configuration=` names it, or "all"; `?section=all` shows all of everything.
        """
        count = len(comparison.groups)
        asked = request.GET.get("configuration", "")
        if self.at_once is None or count == 1 or ALL in (asked, request.GET.get("section")):
            return None
        number = parse_whole_number(asked)
        if number is not None and 1 <= number <= count:
            return number
        return None if count <= self.at_once else 1

    def narrow(self, comparison: Kind, request: OpenRequest) -> Kind:
        """Return the comparison with those configurations alone that are to be shown."""
        number = self.read_configuration(comparison, request)
        if number is None:
            return comparison
        return comparison.take_configuration(number)


class ExperimentPanel(Panel[ExperimentComparison]):
    """A panel that only comparisons of experiments have."""

    kind = ExperimentComparison


class TablePanel(Panel[TableComparison]):
    """A panel that only comparisons of published tables have."""

    kind = TableComparison


def has_folds(comparison: Comparison) -> bool:
    """Return whether there are so many groups that long panels begin closed."""
    return len(comparison.groups) > MOST_OPEN
