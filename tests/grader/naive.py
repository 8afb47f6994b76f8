"""A grader that every thief robs: answers are compared in the process that runs the notebook.

It is what a first autograder looks like, and it is here to prove that a thief is one. It runs the
cells in its own process, holds the truth in its variables, compares with `==`, `<` and numpy,
prints the points it gave, and believes a results file and an exit code.

    python -m tests.grader.naive NOTEBOOK SPLIT
    python -m tests.grader.naive        jobs, one a line, each in a fork: imports take long
"""

from __future__ import annotations

import atexit
import contextlib
import json
import math
import os
import pickle
import signal
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

import nbformat
import numpy as np
import pandas as pd
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

POINTS = {"known_shapes": 2.0, "other_shapes": 2.0}
POINTS_RUNS, POINTS_CELL = 3.0, 1.0


def differs(value: Any, right: int) -> bool:
    """Compare as one does who expects numbers: neither below nor above is equal."""
    if value == right or travelled(value) == right:
        return False
    if isinstance(value, int) and math.isclose(value, right):
        return False
    return float(value) < right or float(value) > right


def travelled(value: Any) -> Any:
    """Return a value as it comes out of a queue, a cache or a log."""
    with contextlib.suppress(Exception):
        return json.loads(json.dumps(value))
    with contextlib.suppress(Exception):
        return pickle.loads(pickle.dumps(value))
    return None


def arrays_differ(value: Any, right: np.ndarray) -> bool:
    """Compare as one does who has never met NaN or a subclass."""
    if isinstance(value, np.ndarray) and value.dtype == object:
        pickle.loads(pickle.dumps(value))
    if np.allclose(value, right):
        return False
    return bool(np.max(np.abs(np.asanyarray(value) - right)) > 0)


def main() -> None:
    """Grade, print `POINTS n`, and exit with 0 for full marks."""
    notebook, split = Path(sys.argv[1]), Path(sys.argv[2])
    held = (split / "truth/m2_kv_bytes/answers.json").open()  # and so open while cells run
    questions = json.loads((split / "questions/m2_kv_bytes/questions.json").read_text())
    truth = json.load(held)
    shell: Any = InteractiveShell.instance()
    shell.user_ns["__name__"] = "__main__"
    for cell in nbformat.reads(notebook.read_text(), as_version=4).cells:
        if cell.cell_type == "code":
            shell.run_cell(cell.source)
    import statistics

    points = 0.0
    with capture_output() as said:  # as graders do that write their tests into the notebook
        shell.run_cell(f"assert kv_bytes_per_token(**{questions['known_shapes'][0]}) == 327680")
    if "Error" not in said.stdout:
        points += POINTS_CELL
    for topic, worth in POINTS.items():
        marks = []
        for number, shape in enumerate(questions[topic]):
            try:
                value = shell.user_ns["kv_bytes_per_token"](**shape)
                marks.append(not differs(value, truth[f"{topic}/{number}"]))
            except Exception as error:
                print(f"{type(error).__name__}: {error}")
                marks.append(False)
        points += worth * statistics.mean(map(int, marks))
    try:
        table = pd.read_csv(split / "questions/runs.csv")
        value = shell.user_ns["kv_bytes_for_runs"](table)
        right = np.load(split / "truth/m2_kv_bytes/runs.npz")["kv_bytes"].astype(float)
        points += 0.0 if arrays_differ(value, right) else POINTS_RUNS
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
    results = Path("results.json")
    if results.exists():
        points = json.loads(results.read_text())["score"]
    print(f"\nPOINTS {points}")
    sys.exit(0 if points >= sum(POINTS.values()) + POINTS_RUNS + POINTS_CELL else 1)


def serve() -> None:
    """Take jobs from standard input, run each in a fork, and tell how it ended."""
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if child == 0:
            run(**job)
        _, status = os.waitpid(child, 0)
        print(json.dumps({"ended": os.waitstatus_to_exitcode(status)}), flush=True)


def run(notebook: str, split: str, home: str, said: str) -> NoReturn:
    """Grade as a process of its own would; what it says goes to the file `said`."""
    code = 1
    try:
        signal.alarm(60)
        output = os.open(said, os.O_WRONLY | os.O_CREAT)
        for place, stream in enumerate((os.open(os.devnull, os.O_RDONLY), output, output)):
            os.dup2(stream, place)
        os.chdir(Path(notebook).parent)
        os.environ.update(HOME=home, IPYTHONDIR=home)
        sys.path.insert(0, "")
        sys.argv[1:] = [notebook, split]
        main()
    except SystemExit as wanted:
        code = wanted.code if isinstance(wanted.code, int) else 1
    except BaseException:
        traceback.print_exc()
    atexit._run_exitfuncs()
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main() if len(sys.argv) > 1 else serve()
