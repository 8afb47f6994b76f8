"""Bad input, told so that the reader knows what, where, what was expected and what to do next."""


class BadInputError(Exception):
    """Input the grader cannot work with; its message is all the reader sees."""
