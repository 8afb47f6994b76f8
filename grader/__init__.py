"""How it is judged: notebooks run in a room, answers come out as data, checks compare them.

Nothing here knows a milestone by name, except `grader.serve`, which serves the planner.
"""

__version__ = "0.1.0"
