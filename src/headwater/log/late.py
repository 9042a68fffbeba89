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

    def __init__(self, topic: str, to: str = "", settings: Settings | None = None) -> None:
        self._to = to
        group = f"headwater.resend.{topic}.to.{to}"
        self._box = LetterBox(topic, LateLetter, group, settings or Settings.load())
        if not self._box.exists:
            raise UnknownTopic(
                f"there is no topic {topic!r}", hint='a pipeline with late=Divert("…") makes its late topic'
            )

    def read(self) -> Iterator[Found[LateLetter]]:
        """The letters, up to the present end."""
        return self._box.read()

    def resend(self, progress: OnProgress = lambda *_: None) -> Resent:
        """Send the record of each letter to the other topic, once."""
        for _, letter, _ in self._box.read():
            if letter.topic == self._to:
                raise SpecError(
                    f"records that were late in {self._to!r} would be late there again",
                    hint="name another topic, and let a pipeline that corrects read it",
                )
            break
        return self._box.resend(self._to, progress)
