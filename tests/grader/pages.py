"""Pages to test: a student of every ending, a class of those, and texts that try to be markup."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import milestones
from grader import html
from grader.classroom import Graded, Reason
from grader.handins import HandIn
from grader.html import NearCopies, feedback_page
from grader.notebook import Cell, Notebook
from grader.report import CellError, CheckReport, MilestoneReport, Outcome, Stop
from milestones.diagnosis import Breakdown, Diagnosis, Part
from solutions.capacity.build import read_plan
from solutions.capacity.fit import fit
from solutions.capacity.gpus import gpu_named
from solutions.capacity.page import as_page
from solutions.capacity.report import OnGpu
from solutions.capacity.size import size_cache
from tests.solutions.capacity_shapes import llama

M1, M2, M3, M4, M5, M6, M7 = milestones.SLUGS
PLAIN = "plain"

RUN = "window.pwned=(window.pwned||0)+1"
HOSTILE = {
    "script": f"<script>{RUN}</script>",
    "handler": f"\"><img src=x onerror='{RUN}'>",
    "svg": f"<svg onload={RUN}><a xlink:href='javascript:{RUN}'>x</a></svg>",
    "style": f"</style><script>{RUN}</script><style>*{{display:none}}",
    "title": f"</title></textarea></details></summary></pre></main><script>{RUN}</script>",
    "attribute": f"' onmouseover='{RUN}' x=\" onfocus=\"{RUN}\" autofocus",
    "address": f"javascript:{RUN}",
    "comment": "<!-- <![CDATA[ ]]> -->",
    "frame": "<iframe src=https://example.test/></iframe><link rel=stylesheet href=//x.test>",
    "refresh": "<meta http-equiv=refresh content='0;url=https://example.test/'>",
    "template": "{{ 7 * 7 }}{% raise %}{# x #}${1}%s{0}",
    "entity": "&lt;script&gt;&#60;b&#62;&amp;&nbsp;",
    "bidi": "user\u202e\u2066 code \u2069\u2067 \u200f\u061c",
    "controls": "a\0b\x1b[31mc\x7fd\x85e\ufefff\u2028g\u200bh\u00adi\ufffej\U000e0041",
    "surrogates": "a\ud800b\udfff",
    "marks": "a" + "\u0301" * 500,
    "name": "x" * 5_000,
    "long": f"<script>{RUN}</script>{'y' * 60}\n" * 400,
    "wide": "W" * 300 + " " + "\ufdfd" * 40,
}  # fmt: skip


def check(
    outcome: Outcome = Outcome.PASSED,
    *,
    name: str = "first",
    sentence: str = "The first check.",
    points: float | None = 2.0,
    figure: float | None = None,
    bar: float | None = None,
    hint: str = "",
    mistake: str = "",
) -> CheckReport:
    """Return a check of 2 points."""
    earned = {Outcome.PASSED: points, Outcome.BROKEN: None}.get(outcome, 0.0)
    return CheckReport(name, sentence, outcome, earned, 2.0, figure, bar, hint, mistake)


def diagnosed(text: str = PLAIN) -> Diagnosis:
    """Return a diagnosis with all its parts and three cuts; `text` wherever one can be."""
    parts = tuple(
        Part(by, name, count, share, figure, bias)
        for by in ("cache", "batch", "GPU")
        for name, count, share, figure, bias in (
            (f"8-bit {text[:40]}", 500, 0.7, 0.28, -0.27),
            ("16-bit", 3_500, 0.3, 0.05, 0.001),
        )
    )
    cut = Breakdown("Where the error lies", "runs", parts, f"Look first {text}.", "MAPE")
    return Diagnosis(f"f({text})", f"8 bytes {text}.", f"twice {text}", f"Is it {text}?", cut)


def report(slug: str, *checks: CheckReport) -> MilestoneReport:
    """Return a milestone's report."""
    return MilestoneReport(slug, milestones.load(slug).title, "0" * 64, checks or (check(),))


def graded(student: str, report: MilestoneReport, reason: Reason = Reason.GRADED) -> Graded:
    """Return a hand-in that came to this report."""
    return Graded(HandIn(student, report.milestone), report, reason)


def notebook(*sources: str) -> Notebook:
    """Return a notebook of code cells."""
    cells = tuple(Cell(index, source) for index, source in enumerate(sources))
    return Notebook(sha256="0" * 64, cells=cells)


def one_of_each(text: str = PLAIN, student: str = "ann") -> list[Graded]:
    """Return a student's seven hand-ins, one of each ending, with `text` wherever one can be."""
    failed = check(Outcome.FAILED, hint=text, mistake="one_too_many")
    waits = check(
        Outcome.SKIPPED, name="second", sentence="The second check.", hint=f"Waits {text}"
    )
    good = check(name="figure", sentence="A figure.", figure=0.05, bar=0.062)
    near = CheckReport(
        "near", "Nearly at its `bar`.", Outcome.FAILED, 1.0, 2.0, 0.07, 0.062, f"0.07 {text}",
        diagnosis=diagnosed(text),
    )  # fmt: skip
    far = check(Outcome.FAILED, name="far", sentence="An R².", figure=-3.0, bar=0.97, hint=text)
    broken = check(Outcome.BROKEN, hint=f"The grader failed {text}")
    raised = (CellError(0, text), CellError(9, text), CellError(1, f"X: {text}"))
    return [
        graded(student, replace(report(M1, failed, waits, good, near, far), cells=raised)),
        graded(student, report(M2)),
        graded(
            student,
            replace(report(M3, check(Outcome.FAILED, hint=text)), unreadable=text),
            Reason.UNREADABLE,
        ),
        graded(
            student,
            replace(
                report(M4, failed, waits),
                stop=Stop(text, by_bound=True),
                cells=(CellError(1, text, stopped=True),),
            ),
            Reason.LIMIT,
        ),
        graded(student, replace(report(M5, failed), stop=Stop(text, False)), Reason.ENDED),
        graded(student, replace(report(M6, failed), note=f"secret note {text}"), Reason.TRAP),
        graded(student, report(M7, broken, broken), Reason.BROKEN),
    ]


def feedback(text: str = PLAIN, student: str = "ann") -> str:
    """Return the page of `one_of_each`; all code is `text` as well."""
    code = notebook(f"def profile_runs(runs):\n    x = '''{text}'''  # {text}", text, f"# {text}")
    notebooks = {slug: code for slug in milestones.SLUGS if slug != M3}
    return feedback_page(
        student, one_of_each(text, student), notebooks, split_id=text, public=False
    )


def overview(text: str = PLAIN, student: str = "ann") -> str:
    """Return the page of a class of three, one of them with no notebook at all."""
    nothing = replace(report(M1, check(Outcome.FAILED)), unreadable="Nothing was handed in.")
    hand_ins = [
        *one_of_each(text, student),
        *one_of_each(text, "bob"),
        graded(f"other {student}", nothing, Reason.MISSING),
    ]
    copies = [NearCopies(M2, (student, "bob"), 0.93, 100)]
    return class_page(hand_ins, split_id=text, copies=copies, stem=lambda name: name[:100])


def class_page(hand_ins: Sequence[Graded], **about: Any) -> str:
    """Return the page of a class, whole."""
    return "".join(html.class_page(hand_ins, **about))


def capacity(text: str = PLAIN, who: str = "config.json") -> str:
    """Return the page of a sized cache, full and windowed layers, with `text` wherever one can be.

    A config's words reach it only through names that are checked; the file's own name, the rule and
    the notes stand for them.
    """
    windowed = {"model_type": "gemma3_text", "sliding_window": 1_024, "head_dim": 128}
    plan = read_plan(llama(12, 8, 4, 1_024, **windowed, sliding_window_pattern=6))
    layers = tuple(replace(layer, rule=f"{layer.rule} {text}") for layer in plan.layers)
    plan = replace(plan, layers=layers, rule=f"{plan.rule} {text}", notes=(text,))
    size = size_cache(plan, 32_768)
    gpu = gpu_named("H100")
    return as_page(size, OnGpu(fit(size, gpu, 4.0, 16), gpu, f"4e9 weights: {text}", 16), who)
