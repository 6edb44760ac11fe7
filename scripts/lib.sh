# Functions of the set-up scripts; to be sourced, not run.
# shellcheck shell=bash

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
JARS="${ODRADEK_JARS:-$ROOT/.cache/jars}"

say() { printf '%s\n' "odradek set-up: $*" >&2; }

# Runs a command as root: directly, through passwordless sudo, or not at all (status 1).
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then sudo -n "$@"
  else return 1
  fi
}

# Installs Debian packages if that is allowed; shows the output only if it fails.
apt_install() {
  command -v apt-get >/dev/null 2>&1 || return 1
  as_root true || return 1
  local log
  log="$(mktemp)"
  if as_root env DEBIAN_FRONTEND=noninteractive sh -c '
      apt-get install -y -q --no-install-recommends "$@" || { apt-get update -q && apt-get install -y -q --no-install-recommends "$@"; }
    ' apt "$@" >"$log" 2>&1; then
    rm -f "$log"
  else
    tail -n 5 "$log" >&2
    rm -f "$log"
    return 1
  fi
}

# Prints the major version of a java binary: 17, 21, ...; nothing if it does not run.
java_major() {
  "$1" -version 2>&1 | sed -n 's/.*version "\([0-9]*\)[."].*/\1/p' | head -n 1
}

# Prints the path of a java that Kafka 4 and Spark 4 run on (17 or newer, up to 21), or fails.
find_java() {
  local candidate major
  for candidate in "${JAVA_HOME:+$JAVA_HOME/bin/java}" "$(command -v java || true)" \
    /usr/lib/jvm/java-17-openjdk*/bin/java /usr/lib/jvm/java-21-openjdk*/bin/java; do
    [ -n "$candidate" ] && [ -x "$candidate" ] || continue
    major="$(java_major "$candidate")"
    case "$major" in 17|18|19|20|21) printf '%s\n' "$candidate"; return 0 ;; esac
  done
  return 1
}
