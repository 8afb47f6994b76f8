"""Lab x1's secrets: its oracle, its notebook's source and its named mistakes."""
