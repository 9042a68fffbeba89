"""How clients reach the log, and what their errors mean.

Every client is configured here, and every KafkaError that reaches a user becomes one of ours here.
What passes by itself (a leader is being chosen, a coordinator loads) is asked again, not raised.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, NoReturn, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from headwater import embedded
from headwater.clock import Deadline, wait_until
from headwater.errors import (
    BrokerRefused,
    BrokerUnreachable,
    Closed,
    HeadwaterError,
    LogError,
    SettingsError,
    UnknownGroup,
    UnknownTopic,
)
from headwater.log.options import translate_options
from headwater.settings import Settings

ANSWER_WITHIN = 10.0
"""Seconds that a broker has for an answer to a question (not for a delivery)."""

TRY_WITHIN = 3.0
"""Seconds for one try of a question that is asked again."""

_LOGGER = logging.getLogger("headwater.kafka")
_LOGGER.addHandler(logging.NullHandler())
_AWAY = (
    KafkaError._TRANSPORT,  # noqa: SLF001
    KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
    KafkaError._TIMED_OUT,  # noqa: SLF001
    KafkaError._RESOLVE,  # noqa: SLF001
    KafkaError.REQUEST_TIMED_OUT,
)
_PASSING = (
    *_AWAY,
    KafkaError._WAIT_COORD,  # noqa: SLF001
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
)
T = TypeVar("T")


class Connection:
    """An address with its options: makes the configuration of every client."""

    def __init__(self, settings: Settings) -> None:
        address = embedded.kafka_address(settings)
        if address is None:
            raise BrokerUnreachable(
                "no log is running here",
                hint="start one with `headwater up`, or name one with HEADWATER_KAFKA=host:9092",
            )
        self.address = address
        self.is_embedded = settings.is_embedded
        self._given = settings.kafka_options
        self._options = translate_options(settings.kafka_options)
        self._admin: AdminClient | None = None

    def config(self, **more: Any) -> dict[str, Any]:
        """A client's configuration; `more` in librdkafka's names, underscores for dots."""
        named = {name.replace("_", "."): value for name, value in more.items()}
        quiet = {"logger": _LOGGER, "log.connection.close": False}
        alert = {"reconnect.backoff.max.ms": 1000}  # the default of 10 s outlasts many a restart
        return {"bootstrap.servers": self.address, **quiet, **alert, **self._options, **named}

    def for_spark(self) -> dict[str, str]:
        """The same address and options for Spark, whose client is Java's."""
        options = {"bootstrap.servers": self.address, **self._given}
        return {f"kafka.{name}": value for name, value in options.items()}

    @property
    def admin(self) -> AdminClient:
        """The client for questions; made once."""
        if self._admin is None:
            with translated(self):
                self._admin = AdminClient(self.config())
        return self._admin

    def renew(self) -> None:
        """Ask the next question with a new client: one that saw its coordinator die never finds it again."""
        self._admin = None

    def without_secrets(self, said: str) -> str:
        """A client's words on its options: names are shown, values never."""
        for value in self._options.values():
            said = said.replace(value, "…") if len(value) > 3 else said
        return said if any(name in said for name in self._options) else f"one of {', '.join(self._options)}"

    def unreachable(self, detail: str = "") -> BrokerUnreachable:
        """The error for a broker that does not answer."""
        mend = "`headwater status` shows it, `headwater up` starts it again"
        other = "is the address right, and are the SASL and TLS options those of this cluster?"
        return BrokerUnreachable(
            f"the broker at {self.address} does not answer",
            detail="\n".join(one for one in (detail, self._trouble()) if one),
            hint=mend if self.is_embedded else other,
        )

    def _trouble(self) -> str:
        """Why no broker is reached: clients tell it (a refused login, say) only beside their errors."""
        told: list[str] = []
        client = AdminClient(self.config() | {"error_cb": lambda error: told.append(error.str())})

        def known() -> bool:
            with suppress(KafkaException):
                client.list_topics(timeout=0.1)
            client.poll(0)
            return bool(told)

        wait_until(known, timedelta(seconds=1))
        return told[0] if told else ""


@contextmanager
def translated(connection: Connection, topic: str = "", group: str = "") -> Iterator[None]:
    """Foreign errors in the block become ours."""
    try:
        yield
    except KafkaException as error:
        raise_for(error.args[0], connection, topic=topic, group=group, cause=error)
    except TimeoutError as error:
        raise connection.unreachable(f"no answer within {ANSWER_WITHIN:.0f} s") from error


@contextmanager
def open_only(what: str) -> Iterator[None]:
    """A client that was closed says so in a foreign error; here it becomes ours."""
    try:
        yield
    except RuntimeError as error:
        if "closed" not in str(error).lower():
            raise
        raise Closed(f"this {what} is closed", hint="open a new one") from error


def patiently(
    connection: Connection,
    ask: Callable[[], T],
    *,
    topic: str = "",
    group: str = "",
    within: timedelta = timedelta(seconds=ANSWER_WITHIN),
) -> T:
    """The answer to a question; asked again while a leader or coordinator is away or being chosen."""
    deadline = Deadline(within)
    while True:
        try:
            with translated(connection, topic=topic, group=group):
                return ask()
        except LogError as error:
            if code_of(error) not in _PASSING or deadline.passed:
                raise
            connection.renew()
            time.sleep(0.1)


def code_of(error: LogError) -> int | None:
    """The code of the KafkaError behind one of ours."""
    cause = error.__cause__
    return int(cause.args[0].code()) if isinstance(cause, KafkaException) else None


def raise_for(
    error: KafkaError,
    connection: Connection,
    *,
    topic: str = "",
    group: str = "",
    cause: Exception | None = None,
) -> NoReturn:
    """Raise the HeadwaterError that a KafkaError means."""
    raise error_for(error, connection, topic=topic, group=group) from cause


def error_for(
    error: KafkaError, connection: Connection, *, topic: str = "", group: str = ""
) -> HeadwaterError:
    """The HeadwaterError that a KafkaError means."""
    code, said = error.code(), error.str()
    if code in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):  # noqa: SLF001
        return UnknownTopic(
            f"there is no topic {topic!r}",
            hint=f"`headwater topics create {topic} …` makes it; `headwater topics` lists them",
        )
    if code == KafkaError.GROUP_ID_NOT_FOUND:
        return UnknownGroup(f"there is no group {group!r}", hint="`headwater groups` lists them")
    if code in _AWAY:
        return connection.unreachable(said)
    if code == KafkaError._INVALID_ARG:  # noqa: SLF001
        return SettingsError("the client refuses its configuration", detail=connection.without_secrets(said))
    return BrokerRefused(f"the broker at {connection.address} refused: {said}", detail=error.name())
