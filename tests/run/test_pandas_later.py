"""What pyarrow knows of pandas in a worker; each in a process of its own, for a module is imported once."""

import subprocess
import sys

import pytest

LATER = "import sys, pyarrow as pa; from headwater.run.pandas_later import look_now; look_now()"
SERIES = "import pandas as pd; found = pa.array(pd.Series([1.5, float('nan')]))"


def printed(*lines: str) -> str:
    command = [sys.executable, "-c", "\n".join(lines)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_making_an_array_loads_no_pandas():
    assert printed(LATER, "pa.array([1, 2]); print('pandas' in sys.modules)") == "False"


@pytest.mark.parametrize("before", ["", LATER], ids=["pyarrow alone", "as in a worker"])
def test_a_series_is_one_once_pandas_is_imported(before: str):
    assert printed("import pyarrow as pa", before, SERIES, "print(found.null_count)") == "1"


def test_a_part_of_pandas_can_be_imported_first():
    assert printed(LATER, "import pandas.api.types", SERIES, "print(found.null_count)") == "1"


def test_where_there_is_no_pandas_none_is_found():
    hidden = "sys.path[:] = [one for one in sys.path if 'site-packages' not in one]"
    asked = "try: import pandas\nexcept ModuleNotFoundError as error: print(error)"
    assert printed(LATER, hidden, asked) == "No module named 'pandas'"
