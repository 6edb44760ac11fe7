#!/usr/bin/env bash
# Runs a command after setting up everything besides Python: Java, Kafka's and Spark's jars, kcat and, for tests, Go and
# PostgreSQL. For a missing tool it prints a warning and sets ODRADEK_NO_JAVA=1, ODRADEK_NO_KCAT=1, ODRADEK_NO_GO=1 or
# ODRADEK_NO_POSTGRES=1 for the command: without this variable, a test that needs the tool fails.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"

if [ "$("$here/ensure_java.sh" | tail -n 1)" = "no java" ]; then
  export ODRADEK_NO_JAVA=1
elif ! "$here/fetch_jars.sh"; then
  echo "odradek set-up: NO JARS: going on without real Kafka and Spark" >&2
  export ODRADEK_NO_JAVA=1
fi
if [ "$("$here/ensure_kcat.sh" | tail -n 1)" = "no kcat" ]; then
  export ODRADEK_NO_KCAT=1
fi
case " $* " in
  *" pytest "*) # nothing else needs these
    if [ "$("$here/ensure_go.sh" | tail -n 1)" = "no go" ]; then
      export ODRADEK_NO_GO=1
    fi
    if [ "$("$here/ensure_postgres.sh" | tail -n 1)" = "no postgres" ]; then
      export ODRADEK_NO_POSTGRES=1
    fi
    ;;
esac
exec "$@"
