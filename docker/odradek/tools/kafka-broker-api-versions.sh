#!/bin/sh
# Health checks of compose files use Kafka's tool of this name to check that the broker answers.
exec odradek-health
