"""The course's small language model: how it was trained, and how its weights reach `data/`."""
