"""Versions of what a result depends on, for reports of problems."""

from __future__ import annotations

import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, requires, version

from threadpoolctl import threadpool_info


def show_versions() -> None:
    """Print the versions of Python, of the system, of all dependencies and of numeric libraries."""
    lines = ["System:"]
    lines += [f"{name:>16}: {text}" for name, text in _system().items()]
    lines += ["", "Packages:"]
    lines += [f"{name:>16}: {installed_version(name)}" for name in ["parafair", *_dependencies()]]
    lines += ["", "Numeric libraries:"]
    for library in threadpool_info():
        known = library["version"] or "version not known"
        lines.append(f"{library['prefix']:>16}: {known}, {library['num_threads']} threads")
    sys.stdout.write("\n".join(lines) + "\n")


def installed_version(package: str) -> str:
    """Return the version of a package, or that it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _system() -> dict[str, str]:
    """Return Python, the system and the GPU, as text without names of users or paths."""
    import torch  # takes seconds, and `import parafair.environment` should not

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    python = " ".join(sys.version.split())
    return {"python": python, "platform": platform.platform(), "CUDA device": gpu}


def _dependencies() -> list[str]:
    """Return the names of all dependencies, those of extras last."""
    found: dict[str, bool] = {}
    for requirement in requires("parafair") or ():
        matched = re.match(r"[A-Za-z0-9._-]+", requirement)
        if matched and matched[0] != "parafair":
            found.setdefault(matched[0], "extra ==" in requirement)
    return sorted(found, key=lambda name: (found[name], name.lower()))
