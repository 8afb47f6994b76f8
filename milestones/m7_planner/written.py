"""The written plan: its template, its parts, and the figures that its words must name.

What a machine can tell is whether each part is there, in words of the student's own, and names the
figures of `capacity_plan`. What the words are worth, a person judges against a rubric: `document`
is what that person reads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from milestones.compare import is_number, kind_of, shown
from milestones.m7_planner.calls import CASES
from milestones.m7_planner.plans import COUNTS, KEYS
from milestones.spec import Answers, Files, Verdict, check, failed, passed

VARIABLE = "written_plan"
CHOSEN, CHANGES = "What is chosen, and what it costs", "What would change it"
NAMED = {
    CHOSEN: tuple(key for key in KEYS if key != "limited_by"),
    CHANGES: tuple(f"fleet_usd_per_hour_{name}" for name in CASES[1:]),
}
"""The figures of `capacity_plan` that a part names."""
# One sentence that says something has some fifteen words, hardly any of them twice. More is the
# rubric's to ask for.
FEWEST_WORDS = 15
FEWEST_DIFFERENT = 10
NAMED_REL = 0.01  # as in `capacity_plan`: what is rounded to three digits errs by at most 0.5 %

NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
WORD = re.compile(r"[^\W\d_]{2,}")
FIGURES = "### Figures, written and planned"


@cache
def template() -> str:
    """Return the template: headings, and under each a quoted prompt."""
    path = Path(__file__).resolve().parent / "template.md"
    return path.read_text(encoding="utf-8")


@cache
def headings() -> tuple[str, ...]:
    """Return the headings of the parts, in the template's order."""
    lines = template().splitlines()
    return tuple(line.lstrip("# ") for line in lines if line.startswith("#"))


def own_words(text: str) -> dict[str, str]:
    """Return what stands under each heading of the template, without the template's own lines.

    Quoted lines and lines of the prompts, quoted or not, are not the student's.
    """
    known = {_plain(heading): heading for heading in headings()}
    given = {_plain(line) for line in template().splitlines()}
    found: dict[str, list[str]] = {}
    under: str | None = None
    for line in text.splitlines():
        bare = line.strip()
        if bare.startswith("#") and _plain(bare) in known:
            under = known[_plain(bare)]
            found.setdefault(under, [])
        elif under is not None and not bare.startswith(("#", ">")) and _plain(bare) not in given:
            found[under].append(bare)
    return {heading: "\n".join(lines).strip() for heading, lines in found.items()}


def _plain(line: str) -> str:
    return " ".join(line.strip().lstrip("#> ").casefold().split()).rstrip(" #:")


@check(
    points=0.5,
    topics=["text", "written"],
    needs=["written_plan"],
    think="Read your plan as the one who pays for it: what was asked, what comes out, and why?",
)
def plan_in_words(answers: Answers, truth: Files) -> Verdict:  # noqa: ARG001
    """Each part of `written_plan` is there, in your own words, and names your figures in digits."""
    text = answers.value("text")
    if not isinstance(text, str):
        return failed(f"It is {kind_of(text)}.", f"`{VARIABLE}` is not a text.", asked=VARIABLE)
    parts = own_words(text)
    fault = _fault_of_parts(parts)
    if fault:
        return failed("", fault, asked=VARIABLE)
    figures = answers.value("written")
    for heading, keys in NAMED.items():
        missing = [key for key in keys if not _names(parts[heading], key, figures)]
        if missing:
            return failed(
                f"`capacity_plan` has {missing[0]} = {_shown(figures, missing[0])}.",
                f"the part '{heading}' does not name {', '.join(missing)} as `capacity_plan` "
                "has it",
                asked=VARIABLE,
            )
    return passed()


def _fault_of_parts(parts: Mapping[str, str]) -> str:
    missing = [heading for heading in headings() if heading not in parts]
    if missing:
        return f"these parts are missing: {'; '.join(missing)}. Keep the template's headings"
    empty = [heading for heading, text in parts.items() if not WORD.findall(text)]
    if empty:
        return f"these parts are not written yet: {'; '.join(empty)}"
    for heading, text in parts.items():
        words = [word.casefold() for word in WORD.findall(text)]
        if len(words) < FEWEST_WORDS or len(set(words)) < FEWEST_DIFFERENT:
            return (
                f"the part '{heading}' has {len(words)} words, {len(set(words))} of them "
                f"different; {FEWEST_WORDS} and {FEWEST_DIFFERENT} are the least"
            )
    texts = [" ".join(text.casefold().split()) for text in parts.values()]
    if len(set(texts)) < len(texts):
        return "two parts say the same, word for word"
    return ""


# ---------------------------------------------------------------- figures in words


@dataclass(frozen=True)
class Written:
    """A number as it stands in a text: half a unit of its last digit is the least it may err by."""

    value: float
    rounding: float

    def means(self, figure: float) -> bool:
        """Tell whether the number is this figure, rounded."""
        return abs(self.value - figure) <= max(NAMED_REL * abs(figure), self.rounding)


def numbers_in(text: str) -> list[Written]:
    """Return the numbers of a text, with points or commas as people write them."""
    found = []
    for match in NUMBER.findall(text):
        digits = match.replace(",", "") if THOUSANDS.fullmatch(match) else match.replace(",", ".")
        if digits.count(".") <= 1:  # 1.2.3 is a version, no number
            decimals = len(digits.partition(".")[2])
            found.append(Written(float(digits), 0.5 * 10.0**-decimals))
    return found


def _names(text: str, key: str, figures: Mapping[str, Any]) -> bool:
    figure = figures[key]
    if isinstance(figure, str):  # a GPU: its class will do, H100 for H100-80GB
        return figure.partition("-")[0].casefold() in text.casefold()
    numbers = numbers_in(text)
    if key in COUNTS:
        return any(number.value == figure for number in numbers)
    return any(number.means(figure) for number in numbers)


# ---------------------------------------------------------------- for the person who marks it


def document(answers: Answers) -> str:
    """Return the plan as a person reads it: its figures beside the planner's own, then the text.

    Both are a stranger's words: of HTML, links and pictures nothing is left live. The figures come
    first, since a text may open what swallows all that follows (a fence, a comment), or bring a
    table that only looks like the grader's.

    Empty where no part holds a word of the student's own, and none stands outside the parts.
    """
    text, figures = _answered(answers, "text"), _answered(answers, "written")
    if not isinstance(text, str) or _is_template(text):
        return ""
    planned = _planned(answers)
    rows = [
        f"| {key} | {_cell(_shown(figures, key))} | {_cell(_shown(planned, key))} |"
        for key in (*KEYS, *NAMED[CHANGES])
    ]
    table = ["| figure | written | planner |", "|---|---|---|", *rows]
    plan = _harmless(text.strip())
    return "\n".join([FIGURES, "", *table, "", "### The plan, as handed in", "", plan, ""])


def _is_template(text: str) -> bool:
    """Tell whether a text holds nothing but lines of the template."""
    given = {_plain(line) for line in template().splitlines()}
    return all(_plain(line) in given for line in text.splitlines() if WORD.search(line))


def _planned(answers: Answers) -> dict[str, Any]:
    """Return what the student's planner answers for the case and its what-ifs."""
    base = _answered(answers, "case/base")
    planned = dict(base) if isinstance(base, dict) else {}
    for name in CASES[1:]:
        plan = _answered(answers, f"case/{name}")
        if isinstance(plan, dict) and "fleet_usd_per_hour" in plan:
            planned[f"fleet_usd_per_hour_{name}"] = plan["fleet_usd_per_hour"]
    return planned


def _answered(answers: Answers, call_id: str) -> Any:
    answer = answers.by_id.get(call_id)
    return None if answer is None or answer.problem is not None else answer.value


def _shown(figures: Any, key: str) -> str:
    value: Any = figures.get(key) if isinstance(figures, dict) else None
    if is_number(value):
        return shown(value)
    return value[:40] if isinstance(value, str) else "-"


# Entities and not backslashes: a backslash of the text's own would take ours away.
LIVE = re.compile(r"<(?=[A-Za-z/!?])|\](?=[\[(:])")


def _harmless(text: str) -> str:
    """Return Markdown in which no HTML, link or picture is live; in code it shows as an entity."""
    return LIVE.sub(lambda found: f"&#{ord(found.group())};", text)


def _cell(text: str) -> str:
    """Return a text that stays in its cell of a table."""
    return _harmless(" ".join(text.split())).replace("|", "&#124;").replace("`", "&#96;")
