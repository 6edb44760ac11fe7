"""What a broker does, for Prometheus and for whatever watches processes.

    counters, written where things happen   env/request_times.py   replication/traffic.py   env/durations.py
                                            └────────┬─────────┴──────────────────────┘
    at each scrape, in the endpoint's thread     collector.py  (the published image, open logs, committed offsets)
                                                     │
    GET /metrics  /health/live  /health/ready    endpoint.py

Names are those that Kafka's metrics get by the usual rules of Prometheus' JMX exporter, and kafka_exporter's for the
lag of groups, so that boards made for Kafka show an Odradek; what has no counterpart begins with `odradek_`. A count
that happens for each request or commit is an addition to a number; everything else is read when it is scraped, in a
thread of its own, from values that do not change or that are copied in one step.
"""
