"""What the tests of writing share: what readers see of a topic, and how its broker is killed."""

import os
import signal

from headwater import embedded


def amounts(log, topic):
    return sorted(record.value.amount for record in log.read(topic))


def kill_broker(settings):
    (kafka,) = (one for one in embedded.status(settings) if one.name == "kafka")
    os.kill(kafka.pid, signal.SIGKILL)
