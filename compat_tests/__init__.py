"""The same client scripts against Odradek and a real Apache Kafka; what the clients saw is compared."""
