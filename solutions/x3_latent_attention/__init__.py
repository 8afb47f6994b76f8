"""The secrets of lab x3: its oracle, its notebook's source and its named mistakes."""
