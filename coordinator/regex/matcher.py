"""Matches texts with an automaton that is built lazily.

The syntax tree becomes instructions (Thompson's construction). A state is the set of instructions that may come next,
and the kind of the last character; the step from a state for a character is computed once and cached.
"""

from dataclasses import dataclass, field
from typing import Final

from odradek.coordinator.regex.charset import CharSet
from odradek.coordinator.regex.classes import WORD
from odradek.coordinator.regex.syntax import (
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
"""The maximum number of instructions of a matcher. Only counts such as `{1000}` exceed it; RE2 accepts more."""
MAX_STEPS: Final = 500_000
"""How many instructions one matcher may examine for all its texts together, about half a second; a cached step costs
nothing. `.*a.{200}` needs 200 for each character, and 30 million for a thousand long names.
"""
MAX_REMEMBERED: Final = 200_000
"""The maximum size of the cache, in instructions of states and steps between states: about ten megabytes."""


class TooManySteps(InvalidRegex):
    """Matching the expression takes more steps than the limit for all texts together."""

    def __init__(self) -> None:
        super().__init__("it takes too many steps to match")


@dataclass(slots=True)
class Instruction:
    """One instruction: continue at all of `then`, after one of `chars` or if an `assertion` holds, if it has any."""

    chars: CharSet | None = None
    assertion: Assertion | None = None
    then: tuple[int, ...] = ()


@dataclass(slots=True, eq=False)
class State:
    """The instructions to continue at, the kind of the last character ("" at the start), and the cached steps.

    `accepts` is True if a text may end here, None until it is computed.

    Steps refer to states by number, so that there are no reference cycles and a matcher is freed with its last
    reference.
    """

    instructions: frozenset[int]
    last: str
    steps: dict[str, int] = field(default_factory=dict[str, int])
    accepts: bool | None = None


class Matcher:
    """One regular expression. The constructor raises InvalidRegex if the text is invalid or too large.

    A matcher may examine `max_steps` instructions in all; after that `matches` raises TooManySteps, an InvalidRegex.
    """

    def __init__(self, text: str, max_steps: int = MAX_STEPS) -> None:
        self._steps_left = max_steps
        self._program: list[Instruction] = []
        self._accept = self._add(Instruction())
        first = self._compile(Parser(text).parse(), self._accept)
        self.states = [State(frozenset((first,)), "")]
        self._numbers: dict[tuple[frozenset[int], str], int] = {}
        self._remembered = 0

    def matches(self, text: str) -> bool:
        """Returns True if the expression matches the whole `text`. Raises TooManySteps."""
        states = self.states
        state = states[0]
        for char in text:
            number = state.steps.get(char)
            if number is None:
                number = self._step(state, char)
            state = states[number]
            if not state.instructions:
                return False
        if state.accepts is None:
            state.accepts = self._accept in self._reachable(state, "")
        return state.accepts

    def _step(self, state: State, char: str) -> int:
        if self._remembered >= MAX_REMEMBERED:
            self._forget()
        found = (self._program[at] for at in self._reachable(state, char))
        nexts = frozenset(to for each in found if each.chars is not None and char in each.chars for to in each.then)
        key = (nexts, _kind(char))
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.states)
            self.states.append(State(*key))
            self._remembered += len(nexts)
        state.steps[char] = number
        self._remembered += 1
        return number

    def _forget(self) -> None:
        """Clear the cache except for the start state. The current state object remains usable, but is not reused."""
        del self.states[1:]
        self.states[0].steps.clear()
        self._numbers.clear()
        self._remembered = 0

    def _reachable(self, state: State, char: str) -> set[int]:
        """Returns every instruction that can be reached without reading a character, before `char` ("" at the end)."""
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
        self._steps_left -= len(seen)
        if self._steps_left < 0:
            raise TooManySteps
        return seen

    # Compiling

    def _add(self, instruction: Instruction) -> int:
        if len(self._program) >= MAX_INSTRUCTIONS:
            raise InvalidRegex("it is too large")
        self._program.append(instruction)
        return len(self._program) - 1

    def _compile(self, node: Node, then: int) -> int:
        """Add instructions for `node` that continue at `then`; returns the first."""
        match node:
            case Chars():
                return self._add(Instruction(chars=node.members, then=(then,)))
            case Assertion():
                return self._add(Instruction(assertion=node, then=(then,)))
            case Sequence():
                return self._compile_sequence(node, then)
            case Choice():
                return self._add(Instruction(then=tuple(self._compile(option, then) for option in node.options)))
            case Repeat():
                return self._compile_repeat(node, then)

    def _compile_sequence(self, node: Sequence, then: int) -> int:
        if not node.parts:
            return self._nothing(then)
        for part in reversed(node.parts):
            then = self._compile(part, then)
        return then

    def _nothing(self, then: int) -> int:
        """Add an instruction even for an empty expression, so that the size limit ends nested repetitions of it."""
        return self._add(Instruction(then=(then,)))

    def _compile_repeat(self, node: Repeat, then: int) -> int:
        if node.most == 0:
            return self._nothing(then)
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
    match assertion:
        case None:
            return True
        case Assertion.TEXT_START:
            return not last
        case Assertion.TEXT_END:
            return not char
        case Assertion.LINE_START:
            return last in ("", "\n")
        case Assertion.LINE_END:
            return char in ("", "\n")
        case Assertion.WORD:
            return (last == "w") != (char in WORD)
        case Assertion.NOT_WORD:
            return (last == "w") == (char in WORD)


def _kind(char: str) -> str:
    """Returns the kind of the last character for assertions: "w" in a word, a new line, or "-" for any other."""
    return "w" if char in WORD else "\n" if char == "\n" else "-"
