"""`@immutable` and `@mutable` behave like slotted dataclasses, frozen or not."""

import copy
import pickle
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, dataclass, field, fields, is_dataclass, replace
from typing import Generic, TypeVar

import pytest

from odradek.wire.values import COMPILED_AFTER, immutable, mutable

T = TypeVar("T")


@immutable
class Quota:
    """Doc."""

    name: str
    limit: int = 3
    users: Mapping[str, int] = field(default_factory=dict[str, int])
    secret: bytes = field(default=b"", repr=False)

    def __str__(self) -> str:
        return f"{self.name}<={self.limit}"

    @property
    def doubled(self) -> int:
        return 2 * self.limit


@dataclass(frozen=True, slots=True)
class AsDataclass:
    name: str
    limit: int = 3
    users: Mapping[str, int] = field(default_factory=dict[str, int])
    secret: bytes = field(default=b"", repr=False)


@immutable
class Box(Generic[T]):
    held: T


@mutable
class Tally:
    """Counts, with the names seen."""

    total: int = 0
    seen: list[str] = field(default_factory=list[str])


def test_a_mutable_one_can_be_changed_and_so_has_no_hash():
    tally = Tally()
    tally.total += 2
    tally.seen.append("a")
    assert tally == Tally(2, ["a"]) != Tally()
    assert repr(replace(tally, total=3)) == "Tally(total=3, seen=['a'])"
    with pytest.raises(TypeError):
        hash(tally)
    with pytest.raises(AttributeError):
        tally.other = 1


def test_it_is_built_by_place_and_by_name_with_defaults():
    assert (Quota("a").limit, Quota("a", 4).limit, Quota(limit=5, name="a").limit) == (3, 4, 5)
    assert Quota("a").users == {}
    assert Quota("a").users is not Quota("a").users
    assert Quota("a", 4).doubled == 8


@pytest.mark.parametrize("wrong", [Quota, lambda: Quota("a", nobody=1), lambda: Quota("a", name="b")])
def test_wrong_arguments_are_refused_at_the_first_object_and_later(wrong):
    for _ in range(2):
        with pytest.raises(TypeError):
            wrong()


def test_the_first_object_of_a_class_may_be_refused():
    @immutable
    class Fresh:
        number: int

    with pytest.raises(TypeError):
        Fresh()
    assert Fresh(1).number == 1


@pytest.mark.parametrize("kind", [immutable, mutable])
def test_objects_before_and_after_the_constructor_is_compiled_are_the_same(kind):
    @kind
    class Fresh:
        name: str
        limit: int = 3
        seen: list[str] = field(default_factory=list[str])

    general = Fresh.__init__
    first = [Fresh("a", limit=each) for each in range(COMPILED_AFTER)]
    assert Fresh.__init__ is general
    later = [Fresh("a", limit=each) for each in range(COMPILED_AFTER)]
    assert Fresh.__init__ is not general
    assert first == later
    assert Fresh("a") == Fresh(name="a", limit=3, seen=[])
    assert len({id(each.seen) for each in first + later}) == 2 * COMPILED_AFTER


def test_it_cannot_be_changed():
    quota = Quota("a")
    with pytest.raises(FrozenInstanceError):
        quota.limit = 1
    with pytest.raises(FrozenInstanceError):
        quota.other = 1
    with pytest.raises(FrozenInstanceError):
        del quota.limit
    assert not hasattr(quota, "__dict__")


def test_it_is_equal_to_its_like_and_to_nothing_else():
    assert Quota("a") == Quota("a", 3) != Quota("a", 4)
    assert Quota("a") != AsDataclass("a")
    assert Box(1) == Box(1) != 1
    assert Box(1) != (1,)


def test_it_hashes_as_its_values_do():
    assert len({Box(1), Box(1), Box(2)}) == 2
    with pytest.raises(TypeError):
        hash(Quota("a"))


def test_it_shows_what_a_dataclass_shows():
    ours, theirs = repr(Quota("a", secret=b"s")), repr(AsDataclass("a", secret=b"s"))
    assert ours == theirs.replace("AsDataclass", "Quota") == "Quota(name='a', limit=3, users={})"
    assert str(Quota("a")) == "a<=3"
    assert Quota.__doc__ == "Doc."


def test_the_dataclasses_module_works_on_it():
    assert is_dataclass(Quota)
    assert [(each.name, each.repr) for each in fields(Quota)] == [
        (each.name, each.repr) for each in fields(AsDataclass)
    ]
    assert [each.name for each in fields(Box(1))] == ["held"]
    assert replace(Quota("a", users={"u": 1}), limit=9) == Quota("a", 9, {"u": 1})


def test_it_matches_by_place():
    match Quota("a", 7):
        case Quota(name, limit):
            assert (name, limit) == ("a", 7)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda quota: pickle.loads(pickle.dumps(quota))])
def test_it_can_be_copied_and_pickled(again):
    quota = Quota("a", 4, {"u": 1}, b"s")
    assert again(quota) == quota
