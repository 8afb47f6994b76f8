"""GitHub Classroom: the workflow file of an assignment, and the result its reporter reads.

A workflow of GitHub Classroom runs one step a test and hands their results, JSON in base64, to
`classroom-resources/autograding-grading-reporter`, which adds up the scores of their tests
(src/main.js and src/notify-classroom.js there). Steps of its own kind give all points or none; the
step written here gives each check its points.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grader.errors import BadInputError

HEAD = """\
# Grades the notebooks of this repository on the public split, at each push.
# Made by `grader gradebook github-workflow`. It holds nothing secret, and a student may change it:
# the grade that counts comes from `grader class`.
name: Autograding Tests
on: [push, workflow_dispatch, repository_dispatch]
permissions:
  checks: write
  actions: read
  contents: read
jobs:
  run-autograding-tests:
    runs-on: ubuntu-latest
    if: github.actor != 'github-classroom[bot]'
    steps:
      - name: Checkout code
        uses: actions/checkout@v4
      - name: Set up Python
        uses: actions/setup-python@v5
        with:
          python-version: "3.12"
          cache: pip
      - name: Install the grader
        run: python -m pip install --constraint constraints.txt --editable .
"""
# 0: passed, 1: a check failed, 2: no notebook that can be read. 3, BROKEN, fails the job before its
# reporter: no score is told, rather than a zero.
STEP = """\
      - name: {title}
        id: {slug}
        run: |
          grader check {slug} --json {slug}.json || test $? -le 2
          grader gradebook github-result {slug}.json >> "$GITHUB_OUTPUT"
"""
REPORTER = """\
      - name: Autograding Reporter
        uses: classroom-resources/autograding-grading-reporter@v1
        env:
{env}
        with:
          runners: {runners}
"""


def workflow(milestones: Sequence[tuple[str, str]]) -> str:
    """Return `.github/workflows/classroom.yml` for milestones, given as slug and title."""
    steps = "".join(
        STEP.format(title=json.dumps(f"{slug}: {title}"), slug=slug) for slug, title in milestones
    )
    env = "\n".join(
        f"          {one.upper()}_RESULTS: ${{{{ steps.{one}.outputs.result }}}}"
        for one, _ in milestones
    )
    return HEAD + steps + REPORTER.format(env=env, runners=",".join(slug for slug, _ in milestones))


def result(path: Path) -> str:
    """Return the output line of a step: the result of a `grader check --json` report.

    Bonus checks add to the score and not to its maximum.

    Raises:
        BadInputError: it is no such report, or holds a check whose points are not known.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        checks = [check for m in content["milestones"] for check in m["checks"]]
        tests = [_test(check) for check in checks]
        counted = [check for check in checks if not check.get("bonus")] or checks
        maximum = sum(float(check["points_max"]) for check in counted)
        passed = all(check["outcome"] == "PASSED" for check in counted)
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise BadInputError(f"{path}: is no report of `grader check --json`") from None
    given = {
        "version": 1,
        "status": "pass" if passed else "fail",
        "max_score": maximum,
        "tests": tests,
    }
    return "result=" + base64.b64encode(json.dumps(given).encode()).decode("ascii")


def _test(check: dict[str, Any]) -> dict[str, Any]:
    if check["points"] is None:
        raise BadInputError(f"the grader broke on {check['name']}: no points are known")
    return {
        "name": str(check["name"]),
        "status": "pass" if check["outcome"] == "PASSED" else "fail",
        "message": str(check["hint"] or check["sentence"]),
        "score": float(check["points"]),
        "test_code": "",
        "filename": "",
        "line_no": 0,
        "duration": 0,
    }
