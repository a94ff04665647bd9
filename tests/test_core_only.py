import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("core_only.py")


@pytest.mark.slow
def test_the_core_works_without_extras_and_each_missing_one_says_what_to_install():
    command = [sys.executable, "-W", "error", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("the core works without extras\n")
