"""The questions that each notebook ends with, as its milestone's `questions.toml` states them.

Only what is asked stands there. What is right, and why an option is wrong, is truth of a split.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

Kind = Literal["choice", "number", "function"]
"""How a question is answered.

`choice`: with the words of one of `options`. `number`: with a number worked out on paper. Both are
values of the dict `understanding`. `function`: by a function of the question's own name, which is
also asked with figures drawn for the split.
"""


@dataclass(frozen=True)
class Question:
    """One question: `asks` is put to the student, `promise` is the sentence of its check.

    `within` is the relative tolerance of a function's answers, 0 asking for equality; `unit` is
    what they are counted in, and `think` what to think about where they are wrong.
    """

    key: str
    kind: Kind
    asks: str
    promise: str
    points: float
    options: tuple[str, ...] = ()
    within: float = 0.0
    unit: str = ""
    think: str = ""


class QuestionError(ValueError):
    """A question is not written as it should be."""


def read_questions(slug: str) -> tuple[Question, ...]:
    """Return the questions of a milestone, in the order they are asked; none if it has no file.

    Raises:
        QuestionError: a question is malformed; the message says which and how.
    """
    return _read(Path(__file__).resolve().parent / slug / "questions.toml")


@cache
def _read(path: Path) -> tuple[Question, ...]:
    if not path.exists():
        return ()
    content: dict[str, list[dict[str, Any]]] = tomllib.loads(path.read_text(encoding="utf-8"))
    return tuple(_question(path, entry) for entry in content["question"])


def _question(path: Path, entry: dict[str, Any]) -> Question:
    try:
        made = Question(**entry)
    except TypeError as error:
        raise QuestionError(f"{path}: {entry.get('key')}: {error}") from None
    made = replace(
        made,
        promise=" ".join(made.promise.split()),
        think=" ".join(made.think.split()),
        options=tuple(made.options),
    )
    words = [plain_words(option) for option in made.options]
    if made.kind == "choice" and not (len(words) >= 3 and len(set(words)) == len(words)):
        raise QuestionError(f"{path}: {made.key}: three or more options that differ are needed")
    if made.kind != "choice" and words:
        raise QuestionError(f"{path}: {made.key}: only a choice has options")
    if (made.kind == "function") != bool(made.think):
        raise QuestionError(f"{path}: {made.key}: a function, and only that, has a `think`")
    if made.options != tuple(sorted(made.options)):
        # The order they are written in tells nothing of which is right.
        raise QuestionError(f"{path}: {made.key}: options are written in alphabetical order")
    return made


def plain_words(text: str) -> str:
    """Return text as two people would call it the same: case, spaces, quotes, last dot aside."""
    words = " ".join(text.replace("’", "'").replace("‘", "'").casefold().split())
    return words.strip("\"'`“” ").rstrip(".").strip()


def shuffled(slug: str, question: Question, seed: str = "") -> tuple[str, ...]:
    """Return a question's options in an order that depends on the seed and on nothing else."""

    def place(option: str) -> bytes:
        return sha256("\0".join((seed, slug, question.key, option)).encode()).digest()

    return tuple(sorted(question.options, key=place))


def as_markdown(slug: str) -> str:
    """Return a milestone's questions as its notebook shows them."""
    return "\n\n".join(
        _shown(slug, number, question)
        for number, question in enumerate(read_questions(slug), start=1)
    )


def _shown(slug: str, number: int, question: Question) -> str:
    lines = [f"**{number}. `{question.key}`.** {question.asks.strip()}"]
    if question.options:
        lines += ["", *(f"- {option}" for option in shuffled(slug, question))]
    return "\n".join(lines)
