"""The gradebook: what a class earned, by which rules, who changed what, and its way to an LMS.

`tables` is what is stored, `book` writes and reads it, `rules` and `points` make final points of
it, `manual` takes in what a human marked, and `exports` and `gradescope` hand it on.
"""
