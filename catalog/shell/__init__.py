"""The command line: statements from a prompt, a file or an argument, and their results as text. A product of its own."""
