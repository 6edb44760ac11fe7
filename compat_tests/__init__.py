"""The same client scripts against Odradek and a real Apache Kafka; the clients' observations are compared."""
