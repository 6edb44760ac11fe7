"""How a bug is planted: something inside is replaced, and it must be there.

What is replaced is mostly private. A mutant whose target has another name by now would plant nothing, so both
functions fail then.
"""

from inspect import getattr_static
from typing import Any

import pytest


def inside(owner: Any, name: str) -> Any:
    """What `owner`, a class or a module, has under `name`."""
    assert getattr_static(owner, name, None) is not None, f"{owner.__name__} has no {name} to plant a bug in"
    return getattr(owner, name)


def plant(patch: pytest.MonkeyPatch, owner: Any, name: str, instead: Any) -> None:
    """Put `instead` where `owner` has something under `name`."""
    inside(owner, name)
    patch.setattr(owner, name, instead)
