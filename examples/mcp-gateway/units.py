"""An MCP server that converts units."""

from server import serve


def miles(km):
    """Converts kilometres to miles. Use when a distance is given in kilometres."""
    return f"{float(km) * 0.621371:.2f} miles"


serve("units", [miles])
