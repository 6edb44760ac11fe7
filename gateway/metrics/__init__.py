"""A broker's metrics and health, for Prometheus and for process supervisors.

    counters, updated by the code they count   env/request_times.py   replication/traffic.py   env/durations.py
                                            └────────┬─────────┴──────────────────────┘
    at each scrape, in the endpoint's thread     collector.py  (the published image, open logs, committed offsets)
                                                     │
    GET /metrics  /health/live  /health/ready    endpoint.py

Names are those that Kafka's metrics get by the usual rules of Prometheus' JMX exporter, and kafka_exporter's for the
lag of groups, so that dashboards made for Kafka work with Odradek; metrics without a counterpart begin with `odradek_`.
Metrics that change with each request or commit are plain additions; everything else is read at the scrape, in a
separate thread, from values that do not change or that are copied in one step.
"""
