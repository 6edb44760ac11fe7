#!/usr/bin/env bash
# Makes sure that a container engine runs: uses a running one; as root on Debian it installs docker.io and starts
# dockerd. Exits 1 with one line if that is not possible (tests then run Kafka on the local JVM).
set -euo pipefail
. "$(dirname "$0")/lib.sh"

answers() { docker info >/dev/null 2>&1; }

answers && exit 0
if ! command -v dockerd >/dev/null 2>&1; then
  [ "$(id -u)" = 0 ] || { say "no container engine answers and we are not root"; exit 1; }
  say "installing docker.io with apt, for a real Kafka in a container (half a minute)"
  apt_install docker.io iptables || { say "docker.io could not be installed"; exit 1; }
  apt_install docker-compose || say "docker-compose could not be installed: docker/compose.yaml will not be tested"
  answers && exit 0
fi
[ "$(id -u)" = 0 ] || { say "dockerd does not run and we are not root: start it, or set DOCKER_HOST"; exit 1; }
say "starting dockerd"
mkdir -p "$ROOT/.cache"
setsid dockerd >"$ROOT/.cache/dockerd.log" 2>&1 </dev/null &
for _ in $(seq 100); do
  answers && exit 0
  sleep 0.2
done
say "dockerd did not start, see .cache/dockerd.log: $(tail -n 1 "$ROOT/.cache/dockerd.log")"
exit 1
