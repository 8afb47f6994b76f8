"""The calls of milestone 2: shapes, a table of runs, and config files in many spellings."""

from milestones.spec import Call, Files, Table
from milestones.understanding import understanding_calls

RUNGS = ("planned", "chunked", "shared", "by_layer")
"""The rungs of the ladder that earn a bonus."""

CONFIG_TOPICS = ("plain", "spelled", "windowed", "latent", "refused", *RUNGS)


def calls(questions: Files) -> list[Call]:
    """Return the calls, in order, from the split's questions."""
    asked = questions.json("m2_kv_bytes/questions.json")
    found = [
        Call(f"{topic}/{i}", "kv_bytes_per_token", args)
        for topic in ("known_shapes", "other_shapes")
        for i, args in enumerate(asked[topic])
    ]
    runs = {"runs": Table("questions/runs.csv")}
    found.append(Call("runs", "kv_bytes_for_runs", runs, returns="array"))
    found += [
        Call(
            f"{topic}/{i}",
            "kv_bytes_from_config",
            args,
            returns="raised" if topic == "refused" else "json",
        )
        for topic in CONFIG_TOPICS
        for i, args in enumerate(asked[topic])
    ]
    return found + understanding_calls("m2_kv_bytes", questions)
