from pathlib import Path

import pytest

# Real data is not part of the repository; it lies beside it where it is there at all.
SHARED = Path(__file__).parents[2].parent / "shared" / "data"


@pytest.fixture(scope="session")
def real_data():
    if not SHARED.is_dir():
        pytest.skip("no real data beside the repository")
    return SHARED
