#!/usr/bin/env bash
# Makes sure there is a PostgreSQL for the tests of databases: uses the system's, else installs it with apt if that is
# allowed, else prints a warning that it is missing. No server of the system is started: tests start their own. Always
# exits 0; the last line on stdout is "postgres: FOLDER" or "no postgres".
set -euo pipefail
. "$(dirname "$0")/lib.sh"

# Prints the folder of the newest PostgreSQL's programs, or fails.
find_postgres() {
  local initdb
  initdb="$(ls -d /usr/lib/postgresql/*/bin/initdb 2>/dev/null | sort -V | tail -n 1)"
  [ -n "$initdb" ] || initdb="$(command -v initdb)" || return 1
  dirname "$initdb"
}

no_postgres() {
  say "================================================================================"
  say "NO POSTGRESQL: the tests against one will not run, everything else will."
  say "To have it: install PostgreSQL 13 or newer (Debian: apt-get install postgresql)."
  say "================================================================================"
  echo "no postgres"
  exit 0
}

install_postgres() {
  say "installing PostgreSQL with apt, one of the stores and databases that are tested (half a minute)"
  # Debian's package would create and start a server.
  as_root sh -c 'mkdir -p /etc/postgresql-common && [ -e /etc/postgresql-common/createcluster.conf ] ||
    echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf' || return 1
  apt_install postgresql
}

find_postgres >/dev/null || install_postgres || no_postgres
echo "postgres: $(find_postgres || no_postgres)"
