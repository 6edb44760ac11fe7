"""`odradek demo`: three weeks of flights through a broker that is killed, and a consumer group of which one is killed.

    flights ──► producer ──► topic (6 partitions) ──┬──► 3 consumer processes ──► totals in their commits ──► check
                                                    ├──► read again from the beginning ─────────────────────► check
                                                    ├──► odradek sql ───────────────────────────────────────► check
                                                    └──► Spark: format("odradek") ──► Parquet table ────────► check

It needs nothing but the package: the producer and the consumers speak Kafka's protocol themselves. SQL and Spark take
part if what they need is installed. All data are in a temporary folder, which is deleted at the end.
"""
