"""The calls of milestone 5: terms of every run and of altered rows, and a fit on the train runs.

The grader multiplies terms by coefficients itself: the student is never asked for a prediction.
"""

from milestones.spec import Call, Files, Table
from milestones.understanding import understanding_calls

RUNS = "questions/runs.csv"
ALTERED = "questions/m5_roofline/altered.csv"


def calls(questions: Files) -> list[Call]:
    """Return the calls, in order, from the split's questions."""
    apart = questions.json("m5_roofline/apart.json")
    return [
        Call("terms", "roofline_terms", {"runs": Table(RUNS)}, returns="array"),
        Call("altered", "roofline_terms", {"runs": Table(ALTERED)}, returns="array"),
        *(
            Call(f"apart/{i}", "roofline_terms", {"runs": Table(RUNS, tuple(rows))}, "array")
            for i, rows in enumerate(apart)
        ),
        Call("coefficients", "fit_roofline", {"train": Table("data/train.csv")}, returns="array"),
        *understanding_calls("m5_roofline", questions),
    ]
