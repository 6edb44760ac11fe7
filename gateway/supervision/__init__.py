"""Several nodes on one machine: the settings of each (`layout.py`), and the process that keeps them running.

    odradek serve --brokers 3 ─► node1.properties … ─► odradek serve --config node1.properties, … (`supervisor.py`)
                                                              │ ended ──► started again, after a growing pause
    SIGTERM ─► the nodes drain in turn, each when the one before has ended

A Python process uses one core: several nodes are the way to use more cores of one machine.
"""
