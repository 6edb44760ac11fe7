#!/usr/bin/env bash
# Resolves the jars that tests, demo and benchmarks need, by Maven coordinates, into $ODRADEK_JARS (default
# .cache/jars): kafka/ (a whole Kafka), kafka-clients-4.4.0.jar (the message definitions), spark/ (the connector),
# connect-*-VERSION.jar (the file connectors and MirrorMaker 2, of Kafka's own version).
# Does nothing if they are already there; downloads again if a POM has changed. Exits 1 with the reason if there is no
# Maven or an artifact cannot be resolved.
#   scripts/fetch_jars.sh [kafka] [clients] [spark] [connect]     (default: all)
set -euo pipefail
. "$(dirname "$0")/lib.sh"

CLIENTS_VERSION=4.4.0
SPARK_TOKEN_VERSIONS="4.1.3 4.0.0"

need_maven() {
  command -v mvn >/dev/null 2>&1 && return 0
  say "NO MAVEN: no jars can be fetched, so real Kafka and Spark will not run; install Maven and Java 17, then try again"
  exit 1
}

maven() { # quiet; prints Maven's errors on failure
  local log
  log="$(mktemp)"
  if mvn -q -B "$@" >"$log" 2>&1; then rm -f "$log"; else
    grep -m 3 '\[ERROR\]' "$log" | cut -c1-300 >&2 || true
    rm -f "$log"
    return 1
  fi
}

# done_already STAMP WHAT...: succeeds if the folder was filled from exactly these inputs
done_already() { [ -f "$1" ] && [ "$(cat "$1")" = "$2" ]; }
digest() { cat "$@" | sha256sum | cut -d' ' -f1; }

# copy_dependencies POM FOLDER [maven options]: fills FOLDER in one step, so that an interrupted run leaves nothing half done
copy_dependencies() {
  local pom="$1" folder="$2"
  shift 2
  rm -rf "$folder.new"
  maven -f "$pom" dependency:copy-dependencies -DincludeScope=runtime "-DoutputDirectory=$folder.new" "$@" || return 1
  rm -rf "$folder"
  mv "$folder.new" "$folder"
}

fetch_kafka() {
  local pom="$ROOT/docker/kafka/pom.xml" stamp="$JARS/kafka.stamp" want
  want="$(digest "$pom")"
  done_already "$stamp" "$want" && return 0
  need_maven
  say "fetching Apache Kafka's jars, for a real Kafka and its tools (half a minute)"
  copy_dependencies "$pom" "$JARS/kafka" || { say "Kafka's jars did not resolve"; return 1; }
  echo "$want" >"$stamp"
}

fetch_one() { # fetch_one ARTIFACT VERSION: a single jar of org.apache.kafka
  local jar="$JARS/$1-$2.jar"
  [ -f "$jar" ] && return 0
  need_maven
  say "fetching $1 $2 (some seconds)"
  maven dependency:copy "-Dartifact=org.apache.kafka:$1:$2" "-DoutputDirectory=$JARS/$1.new" \
    || { say "$1 $2 did not resolve"; return 1; }
  mv "$JARS/$1.new/$(basename "$jar")" "$jar"
  rm -rf "$JARS/$1.new"
}

fetch_clients() { fetch_one kafka-clients "$CLIENTS_VERSION"; }

fetch_connect() {
  local version artifact
  version="$(sed -n 's:.*<kafka.version>\(.*\)</kafka.version>.*:\1:p' "$ROOT/docker/kafka/pom.xml")"
  for artifact in connect-file connect-mirror connect-mirror-client; do fetch_one "$artifact" "$version" || return 1; done
}

fetch_spark() {
  local pom="$ROOT/scripts/spark-jars.xml" stamp="$JARS/spark.stamp" want version
  want="$(digest "$pom")"
  done_already "$stamp" "$want" && return 0
  need_maven
  say "fetching Spark's Kafka connector (some seconds)"
  for version in $SPARK_TOKEN_VERSIONS; do
    if copy_dependencies "$pom" "$JARS/spark" "-Dspark.token.version=$version" 2>/dev/null; then
      echo "$want" >"$stamp"
      return 0
    fi
  done
  say "Spark's Kafka connector did not resolve"
  return 1
}

mkdir -p "$JARS"
[ $# -gt 0 ] || set -- kafka clients spark connect
status=0
for part in "$@"; do
  case "$part" in
    kafka|clients|spark|connect) "fetch_$part" || status=1 ;;
    *) say "unknown part '$part': kafka, clients, spark or connect"; exit 2 ;;
  esac
done
[ "$status" = 0 ] && say "jars are in $JARS"
exit "$status"
