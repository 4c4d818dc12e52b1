"""Publications whose experiments the presets repeat, as they are cited."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Paper:
    """A publication. Only some have a DOI; what is not certain is left empty."""

    authors: tuple[str, ...]
    year: int
    title: str
    venue: str
    doi: str = ""
    caution: str = ""
    """A sentence on what could not be confirmed about this citation."""

    @property
    def short(self) -> str:
        """Return the name in a sentence: "Grupp et al. (2019)"."""
        first = self.authors[0].partition(",")[0]
        return f"{first}{' et al.' if len(self.authors) > 1 else ''} ({self.year})"

    @property
    def citation(self) -> str:
        """Return authors, year, title and venue; pages link the DOI beside it."""
        cited = f"{'; '.join(self.authors)} ({self.year}): {self.title}. {self.venue}."
        return f"{cited} {self.caution}".rstrip()


REMOTE_SENSING = Paper(
    authors=("Cavallaro, G.", "Kozlov, V.", "Götz, M.", "Riedel, M."),
    year=2019,
    title="Remote sensing data analytics with the udocker container tool using multi-GPU deep "
    "learning systems",
    venue="Conference on Big Data from Space (BiDS’19)",
    caution="(The paper’s text names neither year nor conference; both are unconfirmed, and no DOI "
    "is known.)",
)
UDOCKER_GPU = Paper(
    authors=("DEEP-HybridDataCloud",),
    year=2018,
    title="uDocker new GPU implementation",
    venue="Report of the project, 9 October 2018",
)
BENCHMARKING = Paper(
    authors=(
        "Grupp, A.",
        "Kozlov, V.",
        "Campos, I.",
        "David, M.",
        "Gomes, J.",
        "López García, Á.",
    ),
    year=2019,
    title="Benchmarking deep learning infrastructures by means of TensorFlow and containers",
    venue="ISC High Performance 2019 International Workshops, LNCS 11887; slides of 20 June 2019",
    doi="10.1007/978-3-030-34356-9_36",
)
COREOS = Paper(
    authors=("Markovtsev, V.",),
    year=2017,
    title="Using Docker & CoreOS for GPU based deep learning",
    venue="Blog of source{d}, 3 April 2017",
)
