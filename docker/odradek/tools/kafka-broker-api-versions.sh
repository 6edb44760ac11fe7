#!/bin/sh
# Health checks of compose files use Kafka's tool of this name to see whether the broker answers.
exec odradek-health
