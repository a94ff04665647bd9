"""Build the wheel and try it in new environments: the core, then each extra alone.

``make test-extras`` tries all; ``python -m tests.each_extra core plot`` tries some. An environment
is deleted when it has been tried.
"""

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from tests.core_only import EXTRAS

ROOT = Path(__file__).parents[1]


def main():
    """Try what is named; everything if nothing is."""
    names = sys.argv[1:] or ["core", *EXTRAS]
    unknown = set(names) - {"core", *EXTRAS}
    if unknown:
        raise SystemExit(f"no such extra: {', '.join(sorted(unknown))}; one of {', '.join(EXTRAS)}")
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "build", "--outdir", folder, ROOT]
        subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
        for file in sorted(Path(folder).iterdir()):
            print(f"{file.name}: {file.stat().st_size / 1e6:.2f} MB")
        (wheel,) = Path(folder).glob("*.whl")
        failed = [name for name in names if not attempt(name, wheel)]
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


def attempt(name, wheel):
    """Install the wheel with one extra in a new environment, use it there, and say if it works."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        extra = [] if name == "core" else [name]
        wanted = f"{wheel}[{name}]" if extra else str(wheel)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        constraints = ["--constraint", ROOT / "constraints.txt"]
        if subprocess.run([*pip, *constraints, wanted], check=False).returncode:
            print(f"{name}: cannot be installed", flush=True)
            return False
        script = Path(__file__).with_name("core_only.py")
        # Not in the repository, whose folders could be imported.
        done = subprocess.run(
            [python, script, *extra], cwd=folder, check=False, capture_output=True, text=True
        )
    shown = f"\n{done.stdout}{done.stderr}" if done.returncode else done.stdout.splitlines()[-1]
    print(f"{name}: {shown}", flush=True)
    return done.returncode == 0


if __name__ == "__main__":
    main()
