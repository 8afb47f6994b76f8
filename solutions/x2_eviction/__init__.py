"""Lab x2's secrets: its oracle, its notebook's source and its named mistakes."""
