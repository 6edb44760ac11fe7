#!/usr/bin/env bash
# Runs a command after setting up tools besides Python.
#   scripts/with_tools.sh [TOOL...] [--] COMMAND...
# Tools: kafka (Java, Maven, Kafka's jars), spark (the same and Spark's connector), containers (an engine, and the image
# of a real Kafka, which is built in the background), kcat, go, postgres. Without any: spark and kcat, and with pytest
# as the command all but containers. Each script says what it installs, why and how long that takes, before it does.
# For a missing tool it prints a warning and sets ODRADEK_NO_JAVA=1, ODRADEK_NO_KCAT=1, ODRADEK_NO_GO=1 or
# ODRADEK_NO_POSTGRES=1 for the command: without this variable, a test that needs the tool fails.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
here="$ROOT/scripts"

tools=()
while [ $# -gt 0 ]; do
  case "$1" in
    kafka|spark|containers|kcat|go|postgres) tools+=("$1"); shift ;;
    --) shift; break ;;
    *) break ;;
  esac
done
if [ ${#tools[@]} = 0 ]; then
  case " $* " in
    *" pytest "*) tools=(spark kcat go postgres) ;;
    *) tools=(spark kcat) ;;
  esac
fi

wanted() { case " ${tools[*]} " in *" $1 "*) return 0 ;; *) return 1 ;; esac; }

java_and_jars() { # the parts of fetch_jars.sh
  if [ "$("$here/ensure_java.sh" | tail -n 1)" = "no java" ]; then
    export ODRADEK_NO_JAVA=1
  elif ! "$here/fetch_jars.sh" "$@"; then
    say "NO JARS: going on without real Kafka and Spark"
    export ODRADEK_NO_JAVA=1
  fi
}

# The official image, else ours. Tests that need it earlier wait: `docker/kafka/build.sh` lets one build at a time.
kafka_image() {
  local official log="$ROOT/.cache/kafka-image.log"
  "$here/ensure_docker.sh" || { say "NO CONTAINER ENGINE: the real Kafka runs on the local JVM instead"; return 0; }
  official="$(sed -n 's/^OFFICIAL_IMAGE = "\(.*\)"/\1/p' "$ROOT/compat_tests/real_kafka.py")"
  docker image inspect "$official" >/dev/null 2>&1 && return 0
  say "getting an image of a real Kafka in the background (a minute, see .cache/kafka-image.log); tests begin meanwhile"
  mkdir -p "$ROOT/.cache"
  { timeout 300 docker pull -q "$official" || "$ROOT/docker/kafka/build.sh"; } >"$log" 2>&1 </dev/null &
}

if wanted spark; then java_and_jars; elif wanted kafka; then java_and_jars kafka clients; fi
if wanted kcat && [ "$("$here/ensure_kcat.sh" | tail -n 1)" = "no kcat" ]; then export ODRADEK_NO_KCAT=1; fi
if wanted go && [ "$("$here/ensure_go.sh" | tail -n 1)" = "no go" ]; then export ODRADEK_NO_GO=1; fi
if wanted postgres && [ "$("$here/ensure_postgres.sh" | tail -n 1)" = "no postgres" ]; then
  export ODRADEK_NO_POSTGRES=1
fi
if wanted containers; then kafka_image; fi
exec "$@"
