"""Late letters at rest: what a pipeline's late topic holds, and sending it on into a correction.

A late record that went back to its own topic would be late again. So it is sent to another, which a
pipeline that corrects reads.
"""

from collections.abc import Iterator

from headwater.errors import SpecError, UnknownTopic
from headwater.log.late_letter import LateLetter
from headwater.log.letter_box import Found, LetterBox, OnProgress, Resent
from headwater.settings import Settings


class LateLetters:
    """The late letters in a topic; UnknownTopic if there is no such topic."""

    def __init__(self, topic: str, settings: Settings | None = None) -> None:
        self._box = LetterBox(topic, LateLetter, settings or Settings.load())
        if not self._box.exists:
            raise UnknownTopic(
                f"there is no topic {topic!r}", hint='a pipeline with late=Divert("…") makes its late topic'
            )

    def read(self, resent_to: str = "") -> Iterator[Found[LateLetter]]:
        """The letters, up to the present end, and whether they were resent to a topic."""
        return self._box.read(self._resending(resent_to))

    def resend(self, to: str, progress: OnProgress = lambda *_: None) -> Resent:
        """Send the record of each letter to another topic, once."""
        if any(found.letter.topic == to for found in self.read(to)):
            raise SpecError(
                f"records that were late in {to!r} would be late there again",
                hint="name another topic, and let a pipeline that corrects read it",
            )
        return self._box.resend(to, self._resending(to), progress)

    def _resending(self, to: str) -> str:
        return f"headwater.resend.{self._box.place}.to.{to}"
