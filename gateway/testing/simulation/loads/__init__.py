"""The loads of a simulation: clients that behave as real ones do, and check the answers that they get.

A load reaches brokers through `client.Brokers`, so that the same clients use one broker, or a cluster whose leaders
and coordinators move. `oracle.py` and `transaction_oracle.py` record all answers to clients, and raise Violation for
one that contradicts earlier ones.
"""
