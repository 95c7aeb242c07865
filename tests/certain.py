"""What must be there, for tests of answers that may lack it."""

from typing import TypeVar

T = TypeVar("T")


def certain(value: T | None) -> T:
    """Return a value that is not None."""
    assert value is not None
    return value
