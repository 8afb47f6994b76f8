"""The calls of milestone 7: a plan for each workload, for each case, and the written plan."""

from milestones.spec import Call, Files
from milestones.understanding import understanding_calls

CASES = ("base", "double_context", "fp8_cache", "double_load")
"""The case that the written plan is about, and its three what-ifs, in the order of the truth."""

CPU_S = 2.0  # of one call; the contract of this milestone


def calls(questions: Files) -> list[Call]:
    """Return the calls, in order, from the split's questions."""
    asked = questions.json("m7_planner/workloads.json")
    return [
        *(
            Call(f"plan/{i}", "plan", {"workload": workload}, cpu_s=CPU_S)
            for i, workload in enumerate(asked["workloads"])
        ),
        *(
            Call(f"case/{name}", "plan", {"workload": asked["cases"][name]}, cpu_s=CPU_S)
            for name in CASES
        ),
        Call("written", "capacity_plan", {}, variable=True),
        Call("text", "written_plan", {}, variable=True),
        *understanding_calls("m7_planner", questions),
    ]
