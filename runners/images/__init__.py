"""Container images: reading their files, fetching them, and making the forms that runtimes start.

`archives` reads files, `registry` fetches them by `references`, `formats` makes a cluster's forms.
"""

from runners.images.archives import ImageDescription, Kind, convert_to_oci, describe_image, identify
from runners.images.formats import FORMATS, Format, Source, Staging

__all__ = [
    "FORMATS",
    "Format",
    "ImageDescription",
    "Kind",
    "Source",
    "Staging",
    "convert_to_oci",
    "describe_image",
    "identify",
]
