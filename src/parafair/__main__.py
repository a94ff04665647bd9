"""The command `parafair`; also ``python -m parafair``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line, or say what to install for it."""
    try:
        from parafair.cli import app
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in {"typer", "rich", "pandas"}:
            raise
        sys.exit(
            f"parafair: the command line needs the package {error.name!r}; "
            "install it with: pip install 'parafair[cli]'"
        )
    app()


if __name__ == "__main__":
    main()
