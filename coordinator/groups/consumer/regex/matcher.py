"""Matches names with a machine of states, all alternatives at once, and remembers each step it has taken.

The tree becomes instructions (Thompson's construction). A state is the set of instructions that may come next, and the
kind of the last character; the step from a state by a character is computed once.
"""

from dataclasses import dataclass, field
from typing import Final

from coordinator.groups.consumer.regex.classes import WORD
from coordinator.groups.consumer.regex.syntax import (
    Assertion,
    Chars,
    Choice,
    InvalidRegex,
    Node,
    Parser,
    Repeat,
    Sequence,
)

MAX_INSTRUCTIONS: Final = 5_000
"""How large a machine may be. What is refused so has counts of counts; RE2 takes more."""
MAX_STATES: Final = 1_000
"""How many states are remembered, with the steps between them."""


@dataclass(slots=True)
class Instruction:
    """One instruction: goes to all of `then`, behind one of `chars` or under an `assertion` if it has any."""

    chars: frozenset[str] | None = None
    assertion: Assertion | None = None
    then: tuple[int, ...] = ()


@dataclass(slots=True, eq=False)
class State:
    """Instructions to go on from, what the last character was ("" at the start), and the steps known from here."""

    instructions: frozenset[int]
    last: str
    steps: dict[str, "State"] = field(default_factory=dict[str, "State"])


class Matcher:
    """One regular expression. Raises InvalidRegex when made from a text that is none, or is too large."""

    def __init__(self, text: str) -> None:
        self._program: list[Instruction] = []
        self._accept = self._add(Instruction())
        first = self._compile(Parser(text).parse(), self._accept)
        self._start = State(frozenset((first,)), "")
        self._states: dict[tuple[frozenset[int], str], State] = {}

    def matches(self, name: str) -> bool:
        """Whether the expression matches `name` as a whole."""
        state = self._start
        for char in name:
            step = state.steps.get(char)
            if step is None:
                step = self._step(state, char)
            if not step.instructions:
                return False
            state = step
        return self._accept in self._reachable(state, "")

    def _step(self, state: State, char: str) -> State:
        if len(self._states) >= MAX_STATES:
            self._states.clear()
            self._start.steps.clear()
        found = (self._program[at] for at in self._reachable(state, char))
        nexts = frozenset(to for each in found if each.chars is not None and char in each.chars for to in each.then)
        key = (nexts, "w" if char in WORD else "-")
        step = self._states.get(key)
        if step is None:
            step = self._states[key] = State(*key)
        state.steps[char] = step
        return step

    def _reachable(self, state: State, char: str) -> set[int]:
        """Every instruction that can be come to without reading, before `char` ("" at the end)."""
        seen: set[int] = set()
        todo = list(state.instructions)
        while todo:
            at = todo.pop()
            if at in seen:
                continue
            seen.add(at)
            each = self._program[at]
            if each.chars is None and _holds(each.assertion, state.last, char):
                todo += each.then
        return seen

    # Compiling

    def _add(self, instruction: Instruction) -> int:
        if len(self._program) >= MAX_INSTRUCTIONS:
            raise InvalidRegex("it is too large")
        self._program.append(instruction)
        return len(self._program) - 1

    def _compile(self, node: Node, then: int) -> int:
        """Add instructions for `node` that go on to `then`; returns the first."""
        match node:
            case Chars():
                return self._add(Instruction(chars=node.members, then=(then,)))
            case Assertion():
                return self._add(Instruction(assertion=node, then=(then,)))
            case Sequence():
                for part in reversed(node.parts):
                    then = self._compile(part, then)
                return then
            case Choice():
                return self._add(Instruction(then=tuple(self._compile(option, then) for option in node.options)))
            case Repeat():
                return self._compile_repeat(node, then)

    def _compile_repeat(self, node: Repeat, then: int) -> int:
        if node.most is None:
            loop = self._add(Instruction())
            self._program[loop].then = (self._compile(node.node, loop), then)
            then = loop
        else:
            end = then
            for _ in range(node.most - node.least):
                then = self._add(Instruction(then=(self._compile(node.node, then), end)))
        for _ in range(node.least):
            then = self._compile(node.node, then)
        return then


def _holds(assertion: Assertion | None, last: str, char: str) -> bool:
    if assertion is None:
        return True
    if assertion is Assertion.START:
        return not last
    if assertion is Assertion.END:
        return not char
    boundary = (last == "w") != (char in WORD)
    return boundary == (assertion is Assertion.WORD)
