#!/usr/bin/env bash
# Makes sure there is a Go that builds franz-go's own tests, which the compatibility suite runs. Uses the system's if it
# is new enough; else any other Go downloads the pinned toolchain, a Go module whose sum is checked; without any Go,
# installs Debian's if that is allowed. Prints a warning if there is none. Always exits 0; the last line on stdout is
# "go: PATH" or "no go".
set -euo pipefail
. "$(dirname "$0")/lib.sh"

MINOR=26 # required by compat_tests/franz_go/go.mod
PINNED=go1.26.8
case "$(uname -m)" in
  x86_64) PLATFORM=linux-amd64 SUM="h1:ZOmGe1OnfREDMIdb1Qi4G9JSuDPBLGExZMQ4nis1RXM=" ;;
  aarch64) PLATFORM=linux-arm64 SUM="h1:sYL/O6MqS68ML0kjsQ36WoYIpJqkw60TxizWUYUKQMc=" ;;
  *) PLATFORM="" SUM="" ;;
esac
GO_HOME="${ODRADEK_GO:-$ROOT/.cache/go}"
TOOLCHAIN="$GO_HOME/toolchain-$PINNED"

none() {
  say "NO GO: $*: franz-go's own tests will not run. To have it: install Go 1.$MINOR or newer."
  echo "no go"
  exit 0
}

found() {
  echo "go: $1"
  exit 0
}

new_enough() { # go PATH
  local minor
  minor="$(GOTOOLCHAIN=local "$1" version 2>/dev/null | sed -n 's/^go version go1\.\([0-9]*\).*/\1/p')"
  [ -n "$minor" ] && [ "$minor" -ge "$MINOR" ]
}

# The go command unpacks modules without their execute bits, so the toolchain is copied and the bits are set.
unpack_toolchain() { # go PATH: prints the reason if it fails
  local answer folder
  answer="$(cd / && GOTOOLCHAIN=local GOFLAGS=-modcacherw GOMODCACHE="$GO_HOME/mod" \
    "$1" mod download -json "golang.org/toolchain@v0.0.1-$PINNED.$PLATFORM" 2>&1)" || { printf '%s\n' "$answer" | tail -n 1; return 1; }
  printf '%s' "$answer" | grep -qF "\"Sum\": \"$SUM\"" || { echo "the toolchain's checksum is not the pinned one"; return 1; }
  folder="$(printf '%s\n' "$answer" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')"
  rm -rf "$TOOLCHAIN.new"
  cp -r "$folder" "$TOOLCHAIN.new" && chmod -R u+w "$TOOLCHAIN.new"
  chmod +x "$TOOLCHAIN.new"/bin/* "$TOOLCHAIN.new"/pkg/tool/*/*
  rm -rf "$TOOLCHAIN" && mv "$TOOLCHAIN.new" "$TOOLCHAIN"
}

system="$(command -v go || true)"
[ -n "$system" ] && new_enough "$system" && found "$system"
[ -x "$TOOLCHAIN/bin/go" ] && new_enough "$TOOLCHAIN/bin/go" && found "$TOOLCHAIN/bin/go"
[ -n "$PLATFORM" ] || none "no pinned toolchain for $(uname -m)"
if [ -z "$system" ]; then
  say "installing Go with apt, for the tests of franz-go (half a minute)"
  apt_install golang-go || none "no Go here, and none can be installed"
  system="$(command -v go)"
fi
say "fetching $PINNED, which the tests of franz-go need (half a minute)"
why="$(unpack_toolchain "$system")" || none "$why"
found "$TOOLCHAIN/bin/go"
