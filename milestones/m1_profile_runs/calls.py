"""The calls of milestone 1: labelled tables drawn for it, and the public training runs.

No table here holds a run of the split itself, so no label of the truth travels in a question.
"""

from milestones.spec import Call, Files, Table
from milestones.understanding import understanding_calls


def calls(questions: Files) -> list[Call]:
    """Return the calls, in order, from the split's questions."""
    asked = questions.json("m1_profile_runs/questions.json")
    found = [
        Call(f"profile/{i}", "profile_runs", {"runs": Table(path)})
        for i, path in enumerate(asked["profile"])
    ]
    found += [
        Call(
            f"{topic}/{i}",
            "linear_baseline_r2",
            {"train": Table(train), "test": Table(test)},
        )
        for topic in ("baseline", "between")
        for i, (train, test) in enumerate(asked[topic])
    ]
    return found + understanding_calls("m1_profile_runs", questions)
