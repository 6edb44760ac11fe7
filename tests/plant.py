"""Planting of bugs: replaces an existing attribute, usually a private one.

A mutant whose target was renamed would plant nothing, so both functions fail in that case.
"""

from inspect import getattr_static
from typing import Any

import pytest


def inside(owner: Any, name: str) -> Any:
    """The attribute `name` of `owner`, a class or a module."""
    assert getattr_static(owner, name, None) is not None, f"{owner.__name__} has no {name} to plant a bug in"
    return getattr(owner, name)


def plant(patch: pytest.MonkeyPatch, owner: Any, name: str, instead: Any) -> None:
    """Replaces the attribute `name` of `owner` by `instead`."""
    inside(owner, name)
    patch.setattr(owner, name, instead)
