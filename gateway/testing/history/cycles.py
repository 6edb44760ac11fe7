"""Transactions that cannot be put into one order: cycles of the relation "must have come before".

Edges: *ww*, two operations wrote neighbouring records of a partition; *wr*, one operation read what the other wrote;
*process*, one followed the other in a client; *realtime*, one ended before the other began. A strongly connected
component of more than one operation is a cycle.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

from odradek.gateway.testing.history.anomalies import Anomaly, Finding
from odradek.gateway.testing.history.operations import History, Operation, Outcome, by_process
from odradek.gateway.testing.history.versions import Versions

Graph = list[set[int]]
"""For each operation, those that must come after it, as indexes in the history."""
Edges = Callable[[History, Versions], Iterable[tuple[Operation, Operation]]]
"""Pairs of operations of which the first must come before the second."""


def cycles(history: History, versions: Versions) -> Iterator[Finding]:
    """The cycles of each kind. A cycle that a stage has found is not reported again by later stages with more edges.

    G0 has write edges only. G1c has read edges only; G1c-process adds process edges, and G1c-realtime adds realtime
    edges. These three have no write edges: Kafka does not isolate the writes of transactions from each other, so their
    order implies no order of the transactions. Cycles that need both write and read edges are G1c-ww.
    """
    both = ((Anomaly.WRITE_CYCLE, _write_edges), (Anomaly.READ_CYCLE_WRITES, _read_edges))
    stages = (
        (Anomaly.READ_CYCLE, _read_edges),
        (Anomaly.READ_CYCLE_PROCESS, _process_edges),
        (Anomaly.READ_CYCLE_REALTIME, _realtime_edges),
    )
    reads = list(_of_stages(history, versions, stages))
    yield from _of_stages(history, versions, both)
    yield from reads


def _of_stages(history: History, versions: Versions, stages: Sequence[tuple[Anomaly, Edges]]) -> Iterator[Finding]:
    index_of = {id(operation): index for index, operation in enumerate(history)}
    graph: Graph = [set() for _ in history]
    reported: set[frozenset[int]] = set()
    for anomaly, edges in stages:
        for before, after in edges(history, versions):
            if before is not after:
                graph[index_of[id(before)]].add(index_of[id(after)])
        for component in strongly_connected(graph):
            members = frozenset(component)
            if len(members) > 1 and not any(members >= known for known in reported):
                reported.add(members)
                yield Finding(anomaly, " ↔ ".join(_name(history[index]) for index in sorted(members)[:6]))


def _name(operation: Operation) -> str:
    return f"{operation.process}@{operation.began}"


def _write_edges(history: History, versions: Versions) -> Iterator[tuple[Operation, Operation]]:
    del history
    for key, order in versions.order.items():
        writers = [versions.writer.get((key, value)) for value in order]
        for before, after in itertools.pairwise(writers):
            if before is not None and after is not None:
                yield before, after


def _read_edges(history: History, versions: Versions) -> Iterator[tuple[Operation, Operation]]:
    for operation in history:
        if operation.outcome is not Outcome.OK:
            continue
        for read in operation.reads:
            writer = versions.writer.get((read.key, read.value))
            if writer is not None:
                yield writer, operation


def _process_edges(history: History, versions: Versions) -> Iterator[tuple[Operation, Operation]]:
    del versions
    for operations in by_process(history).values():
        yield from itertools.pairwise(operations)


def _realtime_edges(history: History, versions: Versions) -> Iterator[tuple[Operation, Operation]]:
    """Edges from each operation to those that began after its end, without edges that others imply."""
    del versions
    events = sorted(
        [(operation.began, 1, index) for index, operation in enumerate(history)]
        + [(operation.ended, 0, index) for index, operation in enumerate(history) if operation.ended is not None]
    )
    ended: list[int] = []
    for _, is_begin, index in events:
        operation = history[index]
        if is_begin:
            for before in ended:
                yield history[before], operation
        else:
            # Edges from operations that ended before this one began are from now on implied by edges from this one.
            ended = [before for before in ended if (history[before].ended or 0) > operation.began]
            ended.append(index)


def strongly_connected(graph: Sequence[set[int]]) -> Iterator[list[int]]:
    """Tarjan's strongly connected components, without recursion, since a history has thousands of operations."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    for root in range(len(graph)):
        if root in number:
            continue
        work = [(root, iter(sorted(graph[root])))]
        number[root] = low[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, successors = work[-1]
            for successor in successors:
                if successor not in number:
                    number[successor] = low[successor] = len(number)
                    stack.append(successor)
                    on_stack.add(successor)
                    work.append((successor, iter(sorted(graph[successor]))))
                    break
                if successor in on_stack:
                    low[node] = min(low[node], number[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    yield _component(node, stack, on_stack)


def _component(root: int, stack: list[int], on_stack: set[int]) -> list[int]:
    component: list[int] = []
    while True:
        node = stack.pop()
        on_stack.discard(node)
        component.append(node)
        if node == root:
            return component
