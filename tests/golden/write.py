"""Write down what the library answers today: `python -m tests.golden.write [SECTION...]`.

A section is a module beside this one. It names its `PARTS`, each one file in `tests/golden/data`, and its `WAYS`, for
example stores and event loops, which must all give the same rows. Its function `record(part, way, folder)` returns the
rows: a name and a plain JSON value each. `folder` is empty, and also the `AIRW_HOME` and the working folder.

A change of the library that changes a row is a fault, unless it is what the change is for. Then write the section again
and read each changed row: a row is one line of its file.
"""

import json
import math
import os
import sys
import tempfile
from contextlib import chdir
from importlib import import_module
from pathlib import Path

DATA = Path(__file__).parent / "data"
SECTIONS = sorted(
    path.stem for path in Path(__file__).parent.glob("*.py") if path.stem != "write" and path.stem[:5] != "test_"
)
CLOSE = 1e-6  # scores of one part on two machines differ less


def section(name):
    """Return the module of a section."""
    return import_module(f"tests.golden.{name}")


def record(name, part, way, folder) -> dict:
    """Return the rows of a part, as they are read back from JSON."""
    home, before = os.environ.get("AIRW_HOME"), os.environ.copy()
    os.environ["AIRW_HOME"] = str(folder / "home")
    try:
        with chdir(folder):
            rows = section(name).record(part, way, folder)
    finally:
        os.environ.clear()
        os.environ.update(before)
        assert os.environ.get("AIRW_HOME") == home
    return json.loads(json.dumps(rows, ensure_ascii=False))


def file_of(name, part) -> Path:
    return DATA / f"{name}-{part}.json"


def load(name, part) -> dict:
    return json.loads(file_of(name, part).read_text(encoding="utf-8"))


def dump(name, part, rows) -> None:
    """Write rows, one a line, in the order of their names; scores with nine digits."""
    lines = [f"{json.dumps(key)}: {json.dumps(round_floats(rows[key]), ensure_ascii=False)}" for key in sorted(rows)]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    file_of(name, part).write_text(text, encoding="utf-8")


def round_floats(value):
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, list):
        return [round_floats(item) for item in value]
    return {key: round_floats(item) for key, item in value.items()} if isinstance(value, dict) else value


def difference(golden, now, place=""):
    """Return in words where two JSON values first differ, or None.

    Floats may differ in their last digits.
    """
    if isinstance(golden, dict) and isinstance(now, dict):
        if golden.keys() != now.keys():
            return f"{place}: lacks {[*golden.keys() - now.keys()]}, has {[*now.keys() - golden.keys()]} more"
        pairs = [(f"{place}.{key}", value, now[key]) for key, value in golden.items()]
    elif isinstance(golden, list) and isinstance(now, list):
        if len(golden) != len(now):
            return f"{place}: {len(golden)} items were {golden}, {len(now)} are {now}"
        pairs = [(f"{place}[{at}]", value, now[at]) for at, value in enumerate(golden)]
    elif float in (type(golden), type(now)) and {type(golden), type(now)} <= {int, float}:
        return None if math.isclose(golden, now, rel_tol=CLOSE, abs_tol=CLOSE) else f"{place}: {golden} is {now}"
    else:
        return None if golden == now and type(golden) is type(now) else f"{place}: {golden!r} is {now!r}"
    return next(filter(None, (difference(value, current, where) for where, value, current in pairs)), None)


def differences(golden, now) -> list[str]:
    """Return a line for each row that is gone, new or different."""
    gone = [f"{name}: is gone" for name in golden.keys() - now.keys()]
    new = [f"{name}: is new" for name in now.keys() - golden.keys()]
    changed = [difference(golden[name], now[name], name) for name in golden.keys() & now.keys()]
    return sorted([*gone, *new, *filter(None, changed)])


def main(names) -> None:
    DATA.mkdir(exist_ok=True)
    for name in names or SECTIONS:
        for part in section(name).PARTS:
            with tempfile.TemporaryDirectory() as folder:
                rows = record(name, part, section(name).WAYS[0], Path(folder).resolve())
            dump(name, part, rows)
            print(f"{file_of(name, part).name}: {len(rows)} rows")


if __name__ == "__main__":
    main(sys.argv[1:])
