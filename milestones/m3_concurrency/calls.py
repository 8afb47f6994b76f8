"""The calls of milestone 3: each question names the function it is put to."""

from milestones.spec import Call, Files
from milestones.understanding import understanding_calls

TOPICS = ("known", "any_machine", "fraction", "nothing_fits", "longest", "trade")


def calls(questions: Files) -> list[Call]:
    """Return the calls, in order, from the split's questions."""
    asked = questions.json("m3_concurrency/questions.json")
    return [
        Call(f"{topic}/{i}", question["function"], question["args"])
        for topic in TOPICS
        for i, question in enumerate(asked[topic])
    ] + understanding_calls("m3_concurrency", questions)
