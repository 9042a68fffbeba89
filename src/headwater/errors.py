"""Every error that Headwater raises on purpose.

HeadwaterError
├── SettingsError                 bad-settings
├── ServerError                   an embedded server
│   ├── JavaMissing               java-missing
│   ├── DownloadFailed            download-failed
│   ├── ChecksumMismatch          checksum-mismatch
│   ├── PortTaken                 port-taken
│   ├── DiskFull                  disk-full
│   ├── ServerFailed              server-failed
│   ├── ServerUnavailable         server-unavailable
│   └── HomeBusy                  home-busy
├── SpecError                     bad-topic: a Topic that cannot be
├── BadPipeline                   bad-pipeline: an App or Pipeline that cannot be
├── BadRehearsal                  bad-rehearsal: a rehearsal that cannot be
│   ├── BadTranscript             bad-transcript
│   └── RowsUnaccounted           rows-unaccounted
├── BadStep                       bad-step: a step that a function uses and that cannot be
├── RunError                      a pipeline under way
│   ├── PipelineFailed            pipeline-failed
│   ├── TooManyDead               too-many-dead
│   ├── CheckpointMissing         checkpoint-missing
│   ├── StateMismatch             state-mismatch
│   ├── RebuildBusy               rebuild-busy
│   ├── CopyRebuilt               copy-rebuilt
│   ├── SparkFailed               spark-failed
│   └── WorkerUnfit               worker-unfit
├── Closed                        closed
├── LogError                      the log itself
│   ├── BrokerUnreachable         broker-unreachable
│   ├── BrokerRefused             broker-refused
│   ├── UnknownTopic              unknown-topic
│   ├── TopicExists               topic-exists
│   ├── CannotAlter               cannot-alter
│   ├── UnknownGroup              unknown-group
│   ├── GroupActive               group-active
│   ├── PartitionsLost            partitions-lost
│   ├── OffsetOutOfRange          offset-out-of-range
│   ├── BootstrapTooSlow          bootstrap-too-slow
│   └── BadQueue                  bad-queue
├── RecordError                   one record
│   ├── ValueMismatch             value-mismatch
│   ├── KeyMissing                key-missing
│   ├── RecordTooLarge            record-too-large
│   └── Undecodable               undecodable
├── WriteError                    what became of an append
│   ├── NotAcknowledged           not-acknowledged
│   ├── NoTransaction             no-transaction
│   ├── TransactionAborted        transaction-aborted
│   ├── OutcomeUnknown            outcome-unknown
│   └── WriterFenced              writer-fenced
├── RegistryError                 registry-refused: the schema registry
│   ├── RegistryUnreachable       registry-unreachable
│   ├── RegistryMissing           registry-missing
│   ├── UnknownSchema             unknown-schema
│   └── SchemaIncompatible        schema-incompatible
├── CaptureError                  the capture of a database
│   ├── DatabaseUnreachable       database-unreachable
│   ├── DatabaseRefused           database-refused
│   ├── DatabaseUnfit             database-unfit
│   ├── CaptureGap                capture-gap
│   ├── ConnectMissing            connect-missing
│   ├── ConnectUnreachable        connect-unreachable
│   ├── ConnectRefused            connect-refused
│   └── ConnectorFailed           connector-failed
└── SinkError                     an output of a pipeline
    ├── ColumnsMismatch           columns-mismatch
    ├── SlicesChanged             slices-changed
    ├── SinkAhead                 sink-ahead
    ├── SinkUnreachable           sink-unreachable
    ├── SinkRefused               sink-refused
    ├── CopyMismatch              copy-mismatch
    └── CallFailed                call-failed

A message says what happened (lower case, no full stop); `detail` says what was found, `hint` what
to do. The code is stable and has a heading in docs/reference/errors.md.
"""

from typing import ClassVar


class HeadwaterError(Exception):
    """What happened, with a stable code, an optional detail and a hint."""

    code: ClassVar[str] = "headwater"

    def __init__(self, message: str, *, detail: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint

    def __str__(self) -> str:
        lines = [f"{self.message} [{self.code}]"]
        lines += [f"  {line}" for line in self.detail.splitlines()]
        lines += [f"  hint: {self.hint}"] if self.hint else []
        return "\n".join(lines)


class SettingsError(HeadwaterError):
    """A setting that is unknown or has a value that cannot be."""

    code = "bad-settings"


class ServerError(HeadwaterError):
    """An embedded server could not be had."""


class JavaMissing(ServerError):
    """No Java, or one that is too old."""

    code = "java-missing"


class DownloadFailed(ServerError):
    """A part of a server could not be fetched."""

    code = "download-failed"


class ChecksumMismatch(ServerError):
    """A fetched file is not the one that the lock names."""

    code = "checksum-mismatch"


class PortTaken(ServerError):
    """The port that was asked for belongs to another process."""

    code = "port-taken"


class DiskFull(ServerError):
    """There is no room to start a server safely."""

    code = "disk-full"


class ServerFailed(ServerError):
    """A server ended or did not answer in time."""

    code = "server-failed"


class ServerUnavailable(ServerError):
    """A server cannot run on this machine, for this user, or without another server."""

    code = "server-unavailable"


class HomeBusy(ServerError):
    """Another command holds this home for longer than we wait."""

    code = "home-busy"


class SpecError(HeadwaterError):
    """A Topic that cannot be: refused when it is made."""

    code = "bad-topic"


class BadPipeline(HeadwaterError):
    """An App or a Pipeline that cannot be: refused when it is made, or when its plan is."""

    code = "bad-pipeline"


class BadRehearsal(HeadwaterError):
    """A rehearsal of a pipeline is asked for what cannot be."""

    code = "bad-rehearsal"


class BadTranscript(BadRehearsal):
    """A transcript that cannot be understood."""

    code = "bad-transcript"


class RowsUnaccounted(BadRehearsal):
    """A rehearsal in which on time and late and dead are not all."""

    code = "rows-unaccounted"


class BadStep(HeadwaterError):
    """A step in a pipeline's function that cannot be: refused when the function is called."""

    code = "bad-step"


class RunError(HeadwaterError):
    """A pipeline could not go on."""


class PipelineFailed(RunError):
    """A pipeline ended for a reason that trying again does not mend."""

    code = "pipeline-failed"


class TooManyDead(RunError):
    """A pipeline stopped because more records were dead letters than it allows."""

    code = "too-many-dead"


class SparkFailed(RunError):
    """Spark's JVM or its session could not be had."""

    code = "spark-failed"


class WorkerUnfit(RunError):
    """A worker of the cluster cannot run our code."""

    code = "worker-unfit"


class CheckpointMissing(RunError):
    """A pipeline that has read before has no checkpoint: its state would start from nothing."""

    code = "checkpoint-missing"


class StateMismatch(RunError):
    """The state on disk is not the one that the pipeline's steps would go on from."""

    code = "state-mismatch"


class RebuildBusy(RunError):
    """Another rebuild of the same pipeline's copies is under way."""

    code = "rebuild-busy"


class CopyRebuilt(RunError):
    """The copies of a pipeline were rebuilt with other code than it runs."""

    code = "copy-rebuilt"


class Closed(HeadwaterError):
    """A writer, reader or member that was closed is used again."""

    code = "closed"


class LogError(HeadwaterError):
    """The log could not do what was asked."""


class BrokerUnreachable(LogError):
    """No broker answers."""

    code = "broker-unreachable"


class BrokerRefused(LogError):
    """The broker answered with an error of its own."""

    code = "broker-refused"


class UnknownTopic(LogError):
    """The topic does not exist."""

    code = "unknown-topic"


class TopicExists(LogError):
    """The topic exists already, and differs from the spec."""

    code = "topic-exists"


class CannotAlter(LogError):
    """Kafka does not allow this change to a topic."""

    code = "cannot-alter"


class UnknownGroup(LogError):
    """The consumer group does not exist."""

    code = "unknown-group"


class GroupActive(LogError):
    """The group has members, so its offsets cannot be moved under them."""

    code = "group-active"


class PartitionsLost(LogError):
    """A member's partitions went to another before its commit."""

    code = "partitions-lost"


class OffsetOutOfRange(LogError):
    """The offset is not in the log (any more, or yet)."""

    code = "offset-out-of-range"


class BootstrapTooSlow(LogError):
    """A snapshot took so long that tombstones may have been cleaned away under it."""

    code = "bootstrap-too-slow"


class BadQueue(LogError):
    """A queue whose promises the broker would not keep."""

    code = "bad-queue"


class RecordError(HeadwaterError):
    """One record is not what its topic says."""


class ValueMismatch(RecordError):
    """A value does not fit the topic's schema."""

    code = "value-mismatch"


class KeyMissing(RecordError):
    """A record of a keyed topic has no key."""

    code = "key-missing"


class RecordTooLarge(RecordError):
    """A record is larger than the topic takes."""

    code = "record-too-large"


class Undecodable(RecordError):
    """The bytes of a record are not in the topic's format."""

    code = "undecodable"


class WriteError(HeadwaterError):
    """An append whose end is not "written"."""


class NotAcknowledged(WriteError):
    """Records that the broker did not acknowledge; each may or may not be in the log."""

    code = "not-acknowledged"

    def __init__(
        self, message: str, *, detail: str = "", hint: str = "", records: tuple["Unacknowledged", ...]
    ) -> None:
        super().__init__(message, detail=detail, hint=hint)
        self.records = records


class Unacknowledged:
    """One record that was not acknowledged: enough to append it again (its headers are not kept)."""

    __slots__ = ("key", "reason", "topic", "value")

    def __init__(self, topic: str, key: bytes | None, value: bytes | None, reason: str) -> None:
        self.topic = topic
        self.key = key
        self.value = value
        self.reason = reason


class NoTransaction(WriteError):
    """A transactional writer was used outside a transaction, or the other way round."""

    code = "no-transaction"


class TransactionAborted(WriteError):
    """The transaction was rolled back: none of it is visible."""

    code = "transaction-aborted"


class OutcomeUnknown(WriteError):
    """The commit was sent but its answer did not come: all of it is visible, or none."""

    code = "outcome-unknown"


class WriterFenced(WriteError):
    """Another writer took over this transactional id."""

    code = "writer-fenced"


class RegistryError(HeadwaterError):
    """The schema registry could not do what was asked."""

    code = "registry-refused"


class RegistryUnreachable(RegistryError):
    """The schema registry does not answer."""

    code = "registry-unreachable"


class RegistryMissing(RegistryError):
    """A format needs a schema registry and none is configured."""

    code = "registry-missing"


class UnknownSchema(RegistryError):
    """The registry holds no such schema."""

    code = "unknown-schema"


class SchemaIncompatible(RegistryError):
    """The registry refuses a schema under the subject's compatibility mode."""

    code = "schema-incompatible"


class CaptureError(HeadwaterError):
    """A database's changes cannot be captured."""


class DatabaseUnreachable(CaptureError):
    """A captured database does not answer, or does not let us in."""

    code = "database-unreachable"


class DatabaseRefused(CaptureError):
    """A captured database does not do what capture needs."""

    code = "database-refused"


class DatabaseUnfit(CaptureError):
    """A database lacks what capture needs; all that it lacks is told at once."""

    code = "database-unfit"


class CaptureGap(CaptureError):
    """Changes were not captured for a while, and what is in the log would not fit what comes."""

    code = "capture-gap"


class ConnectMissing(CaptureError):
    """There is no Kafka Connect."""

    code = "connect-missing"


class ConnectUnreachable(CaptureError):
    """Kafka Connect does not answer."""

    code = "connect-unreachable"


class ConnectRefused(CaptureError):
    """Kafka Connect answered with an error of its own."""

    code = "connect-refused"


class ConnectorFailed(CaptureError):
    """A connector gave up, or does not get under way."""

    code = "connector-failed"


class SinkError(HeadwaterError):
    """An output of a pipeline cannot be written."""


class ColumnsMismatch(SinkError):
    """The rows of a pipeline do not have the columns that its output needs."""

    code = "columns-mismatch"


class SlicesChanged(SinkError):
    """A batch that is written in part would now be cut into other slices."""

    code = "slices-changed"


class SinkAhead(SinkError):
    """A batch comes after a later one that is already written."""

    code = "sink-ahead"


class SinkUnreachable(SinkError):
    """The system that an output is written to does not answer, or not now."""

    code = "sink-unreachable"


class SinkRefused(SinkError):
    """The system that an output is written to does not take what it is given."""

    code = "sink-refused"


class CopyMismatch(SinkError):
    """The table (or index) of a copy is there already, and is not one that the rows fit into."""

    code = "copy-mismatch"


class CallFailed(SinkError):
    """A function that a pipeline calls for its rows raised an error."""

    code = "call-failed"
