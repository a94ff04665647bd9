"""The command `parafair`; also ``python -m parafair``."""

from __future__ import annotations

import sys
from io import TextIOWrapper


def main() -> None:
    """Run the command line, or say what to install for it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may know ASCII only
    try:
        from parafair.cli import app

        app()
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in {"typer", "rich", "pandas"}:
            raise
        sys.exit(
            f"parafair: the command line needs the package {error.name!r}; "
            "install it with: pip install 'parafair[cli]'"
        )


if __name__ == "__main__":
    main()
