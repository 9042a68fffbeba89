"""Dead letters at rest: which topics have some, what stands in them, and sending them back."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from headwater.errors import UnknownTopic
from headwater.log.letter import SUFFIX, Letter, dead_topic
from headwater.log.letter_box import Found, LetterBox, OnProgress, Resent
from headwater.log.log import Log
from headwater.log.positions import Start
from headwater.settings import Settings

_TOP = 3


@dataclass(frozen=True, kw_only=True)
class DeadState:
    """The dead letters of one topic, counted; the reasons that stand there most often first."""

    topic: str
    letters: int
    resent: int
    newest: datetime | None
    reasons: tuple[tuple[str, int], ...]


class DeadLetters:
    """The dead letters of one topic; UnknownTopic if it has no place for any."""

    def __init__(self, topic: str, settings: Settings | None = None) -> None:
        self.topic = topic
        self._settings = settings or Settings.load()
        self._box = LetterBox(dead_topic(topic), Letter, self._settings, of=topic)
        if not self._box.exists:
            raise UnknownTopic(
                f"topic {topic!r} has no dead letters", hint="`headwater dead list` shows which topics have"
            )

    def read(self, start: Start | None = None) -> Iterator[Found[Letter]]:
        """The letters from a place on (the beginning), up to the present end."""
        return self._box.read(resending(self.topic), start)

    def state(self) -> DeadState:
        """The letters counted; reads them all."""
        reasons: Counter[str] = Counter()
        resent, newest = 0, None
        for _, letter, is_resent in self.read():
            reasons[letter.reason] += 1
            resent += is_resent
            newest = letter.dead_at if newest is None else max(newest, letter.dead_at)
        top = tuple(reasons.most_common(_TOP))
        return DeadState(topic=self.topic, letters=reasons.total(), resent=resent, newest=newest, reasons=top)

    def resend(self, progress: OnProgress = lambda *_: None) -> Resent:
        """Send every letter that has not gone back yet to its topic; a second call sends nothing."""
        if self.topic not in Log.open(self._settings).topics.names():
            raise UnknownTopic(
                f"there is no topic {self.topic!r}, to which letters could go back",
                hint="if it is an output that refused them: mend what they say, then `headwater rebuild` it",
            )
        return self._box.resend(self.topic, resending(self.topic), progress)


def topics_with_letters(settings: Settings | None = None) -> list[str]:
    """The topics that have a place for dead letters."""
    names = Log.open(settings).topics.names()
    return [name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX) and name != SUFFIX]


def resending(topic: str) -> str:
    """The group, and the transactional id, of a topic's resends."""
    return f"headwater.resend.{topic}"
