"""The calls of milestone 6: features, one fit, and predictions of the same runs asked many ways."""

from milestones.spec import Call, Files, Result, Table
from milestones.understanding import understanding_calls

RUNS = "questions/runs.csv"
RENAMED = "questions/m6_memory_traffic/renamed.csv"


def calls(questions: Files) -> list[Call]:
    """Return the calls, in order, from the split's questions."""
    asked = questions.json("m6_memory_traffic/rows.json")

    def predict(call_id: str, runs: Table) -> Call:
        return Call(call_id, "predict_step_ms", {"model": Result("fit"), "runs": runs}, "array")

    return [
        Call(
            "features",
            "traffic_features",
            {"runs": Table(RUNS)},
            returns="columns",
            columns=("weight_bytes", "kv_bytes_read"),
        ),
        Call("fit", "fit_step_time", {"train": Table("data/train.csv")}, returns="kept"),
        predict("predictions", Table(RUNS)),
        *(predict(f"apart/{i}", Table(RUNS, tuple(rows))) for i, rows in enumerate(asked["apart"])),
        predict("names/as_they_are", Table(RUNS, tuple(asked["named"]))),
        predict("names/renamed", Table(RENAMED)),
        *understanding_calls("m6_memory_traffic", questions),
    ]
