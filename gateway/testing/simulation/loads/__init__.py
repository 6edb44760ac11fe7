"""What a simulation gives brokers to do: loads of clients that do what real ones do, and judge what they are told.

A load reaches brokers through `client.Brokers`, so that the same clients use one broker, or a cluster whose leaders
and coordinators move. `oracle.py` and `transaction_oracle.py` take down all that clients are told, and raise Violation
when it contradicts what was told before.
"""
