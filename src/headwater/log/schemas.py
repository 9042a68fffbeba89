"""The way to the schema registry, whose client is loaded with its first use.

With all that it needs it is a quarter of what a start imports, in every process, and most topics have
no schema there.
"""

from typing import TYPE_CHECKING

from headwater.settings import Settings

if TYPE_CHECKING:
    from headwater.log.registry import Schemas


def open_schemas(settings: Settings) -> "Schemas":
    """The registry that the settings name, or the embedded one; nothing is asked of it yet."""
    from headwater.log.registry import Schemas  # noqa: PLC0415 - this is the point

    return Schemas.open(settings)
