#!/usr/bin/env bash
# Prints, for `env`, what the tests must know to be missing on this machine: ODRADEK_NO_JAVA=1, ODRADEK_NO_KCAT=1.
# Without these a missing Java or kcat fails the tests; with them the matrix says "not run".
set -euo pipefail
. "$(dirname "$0")/lib.sh"

find_java >/dev/null && [ -d "$JARS/kafka" ] && [ -d "$JARS/spark" ] || echo "ODRADEK_NO_JAVA=1"
command -v kcat >/dev/null 2>&1 || echo "ODRADEK_NO_KCAT=1"
