#!/bin/sh
# Entry point: reads the broker's configuration from KAFKA_* like the official apache/kafka image (KAFKA_NODE_ID ->
# node.id; __ is an underscore, ___ a dash), formats the storage at the first start, and then executes the broker.
set -eu

CONFIG=/tmp/server.properties
LIBS='/opt/kafka/libs/*'
cluster_id="${CLUSTER_ID:-5L6g3nShT-eMCtK--X86sw}"

defaults() {
  cat <<'END'
node.id=1
process.roles=broker,controller
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
advertised.listeners=PLAINTEXT://localhost:9092
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
controller.quorum.voters=1@localhost:9093
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
log.dirs=/tmp/kraft-combined-logs
END
}

# Settings for this script or the JVM, not for the broker.
from_environment() {
  env | grep '^KAFKA_' | grep -v -E '^KAFKA_(HEAP_OPTS|OPTS|JVM_PERFORMANCE_OPTS|JMX_OPTS|LOG4J_OPTS|VERSION|LOG_LEVEL)=' \
    | while IFS='=' read -r name value; do
        key="$(printf '%s' "${name#KAFKA_}" | tr 'A-Z' 'a-z' | sed -e 's/___/-/g' -e 's/__/\a/g' -e 's/_/./g' -e 's/\a/_/g')"
        printf '%s=%s\n' "$key" "$value"
      done
}

given="$(from_environment || true)"
if [ -n "$given" ]; then printf '%s\n' "$given" >"$CONFIG"; else defaults >"$CONFIG"; fi
grep -q '^log.dirs=' "$CONFIG" || echo 'log.dirs=/tmp/kraft-combined-logs' >>"$CONFIG"

logging="-Dorg.slf4j.simpleLogger.defaultLogLevel=${KAFKA_LOG_LEVEL:-info}"
data="$(sed -n 's/^log.dirs=//p' "$CONFIG" | cut -d, -f1)"
if [ ! -f "$data/meta.properties" ]; then # formatting a restarted container again would double its start time
  java -Xmx64m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$LIBS" \
    kafka.tools.StorageTool format --ignore-formatted -t "$cluster_id" -c "$CONFIG"
fi
# shellcheck disable=SC2086
exec java ${KAFKA_HEAP_OPTS:--Xms256m -Xmx512m} ${KAFKA_OPTS:-} $logging -cp "$LIBS" kafka.Kafka "$CONFIG"
