"""`%check`: the same questions as in a room, put to the functions of a live notebook.

Imported when a notebook asks for it, and by nothing else: a class must not wait for it.
"""
