"""A table of a page."""


def table(*lines: list[str]) -> str:
    """The first line is the head."""
    head, *rows = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([head, "|" + "---|" * len(lines[0]), *rows]).replace("|  ", "| ")
