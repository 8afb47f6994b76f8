"""The secrets of lab 3: its oracle, its notebook's source and its named mistakes."""
