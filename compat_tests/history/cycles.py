"""Operations that would each have to come before the other.

Edges lead from a write to who read it (wr), from a value to the next one in its partition (ww), from an operation to
the next of its process, and from one that had ended to those that began afterwards (realtime).

    G1c               wr alone
    G1c-process       wr and the order of processes
    G1c-realtime      wr and real time

Kafka promises nothing of the order of two transactions in two partitions (G0: ww alone, and G1c with inferred ww), so
`cycles_of` names these only when asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from compat_tests.history.operations import History, Operation
from compat_tests.history.order import KeyOrder

Edges = dict[int, set[int]]
"""From the place of an operation in the history to those of others."""


def cycles_of(
    history: History, orders: dict[str, KeyOrder], *, allowed_too: bool = False
) -> Iterator[tuple[str, list[Operation]]]:
    """Each kind of cycle with the operations that it holds."""
    happened = [each for each in history.operations if each.outcome != "fail"]
    writes, reads, processes = _ww(happened, orders), _wr(happened), _process(happened)
    kinds = {"G1c": [reads], "G1c-process": [reads, processes], "G1c-realtime": [reads, _realtime(happened)]}
    if allowed_too:
        kinds |= {"G0": [writes], "G1c-ww": [writes, reads]}
    for kind, edges in kinds.items():
        for component in components(len(happened), *edges):
            yield kind, [happened[place] for place in component]


def _writers(operations: Sequence[Operation]) -> dict[tuple[str, str], int]:
    return {(send.key, send.value): place for place, each in enumerate(operations) for send in each.sends}


def _wr(operations: Sequence[Operation]) -> Edges:
    writers, edges = _writers(operations), Edges()
    for place, each in enumerate(operations):
        for read in each.reads if each.outcome == "ok" else ():
            writer = writers.get((read.key, read.value))
            if writer is not None and writer != place:
                edges.setdefault(writer, set()).add(place)
    return edges


def _ww(operations: Sequence[Operation], orders: dict[str, KeyOrder]) -> Edges:
    writers, edges = _writers(operations), Edges()
    for key, order in orders.items():
        for before, after in order.adjacent():
            pair = writers.get((key, before)), writers.get((key, after))
            if pair[0] is not None and pair[1] is not None and pair[0] != pair[1]:
                edges.setdefault(pair[0], set()).add(pair[1])
    return edges


def _process(operations: Sequence[Operation]) -> Edges:
    of: dict[str, list[int]] = {}
    for place, each in enumerate(operations):
        of.setdefault(each.process, []).append(place)
    return {before: {after} for places in of.values() for before, after in pairwise(places)}


def _realtime(operations: Sequence[Operation]) -> Edges:
    """Without the edges that follow from others: only the newest of those that had ended matter."""
    moments = [(each.ended, 1, place) for place, each in enumerate(operations)]
    moments += [(each.began, 0, place) for place, each in enumerate(operations)]
    edges, newest, before = Edges(), set[int](), dict[int, set[int]]()
    for _, is_end, place in sorted(moments):
        if not is_end:
            before[place] = set(newest)
            for earlier in newest:
                edges.setdefault(earlier, set()).add(place)
        elif operations[place].outcome == "ok":  # what was not answered may take effect at any time later
            newest = (newest - before[place]) | {place}
    return edges


def components(count: int, *edges: Edges) -> Iterator[list[int]]:
    """The strongly connected components of more than one place (Tarjan's algorithm, without recursion)."""
    followers = [sorted(set().union(*(each.get(place, ()) for each in edges))) for place in range(count)]
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    waiting: set[int] = set()
    for root in range(count):
        if root in order:
            continue
        path = [(root, iter(followers[root]))]
        order[root] = low[root] = len(order)
        stack.append(root)
        waiting.add(root)
        while path:
            place, rest = path[-1]
            for follower in rest:
                if follower not in order:
                    order[follower] = low[follower] = len(order)
                    stack.append(follower)
                    waiting.add(follower)
                    path.append((follower, iter(followers[follower])))
                    break
                if follower in waiting:
                    low[place] = min(low[place], order[follower])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[place])
                if low[place] == order[place]:
                    at = stack.index(place)
                    component = stack[at:]
                    del stack[at:]
                    waiting.difference_update(component)
                    if len(component) > 1:
                        yield sorted(component)
