"""The loads of a simulation: clients that behave like real ones, and check the answers that they get.

A load connects through `client.Brokers`, so that the same clients work with one broker, or with a cluster whose leaders
and coordinators move. `oracle.py` and `transaction_oracle.py` record all answers to clients, and raise Violation for
an answer that contradicts earlier ones.
"""
