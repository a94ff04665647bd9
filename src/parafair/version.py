"""The version of the installed package, and where its documentation is."""

from importlib.metadata import metadata, version

__version__ = version("parafair")


def documentation_url() -> str:
    """Return the address of the documentation, as pyproject.toml has it; empty if it has none."""
    for entry in metadata("parafair").get_all("Project-URL") or ():
        name, _, url = str(entry).partition(", ")
        if name == "Documentation":
            return url.rstrip("/")
    return ""
