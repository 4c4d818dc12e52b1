"""Container images: reading their files, fetching them, and making the forms that runtimes start.

`archives` reads files, `registry` fetches them by `references`, `formats` makes a cluster's forms.
"""

from runners.images.archives import ImageDescription, Kind, convert_to_oci, describe_image, identify
from runners.images.format_base import Format, Staging
from runners.images.formats import FORMATS
from runners.images.staging_steps import Source

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
