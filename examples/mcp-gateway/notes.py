"""An MCP server that keeps notes in a file of its own."""

from pathlib import Path

from server import serve

NOTES = Path("notes.txt")


def add(text):
    """Adds a note. Use when something should be remembered."""
    with NOTES.open("a") as notes:
        notes.write(text + "\n")
    return f"noted: {text}"


serve("notes", [add])
