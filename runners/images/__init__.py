"""Container images: what a file is, what is in it, where it comes from, what it becomes.

`archives` reads files, `registry` fetches them, `formats` says how a cluster makes its own forms.
"""

from runners.images.archives import About, Kind, about, identify, to_oci
from runners.images.formats import FORMATS, Format, Source, Staging

__all__ = [
    "FORMATS",
    "About",
    "Format",
    "Kind",
    "Source",
    "Staging",
    "about",
    "identify",
    "to_oci",
]
