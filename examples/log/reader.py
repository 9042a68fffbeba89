"""One reader of the demo: a member of its own group that works at its own pace.

It prints the numbers of the payments of each batch and then commits them. Killed in between, it
has done work that it has not committed: the next reader of the group does it again.

    python examples/log/reader.py GROUP PACE     (HEADWATER_HOME says where the log is)
"""

import json
import sys
import time
from contextlib import suppress
from datetime import timedelta

from headwater import Log
from headwater.errors import PartitionsLost
from topics import PAYMENTS


def main(group: str, pace: int) -> None:
    with Log.open().join(group, PAYMENTS, session=timedelta(seconds=6)) as member:
        while True:
            numbers = [record.value.number for record in member.take(0.2)]
            if numbers:
                print(json.dumps(numbers), flush=True)
                time.sleep(len(numbers) / pace)
                with suppress(PartitionsLost):  # they come again, here or elsewhere
                    member.commit()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
