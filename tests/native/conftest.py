import pytest

from r2d2net.native import library


@pytest.fixture(autouse=True)
def _own_library():
    """No test leaves a faulty library or a lower level behind."""
    yield
    library._library.cache_clear()
    if library.problem() is None:
        library.use_level(-1)
