#!/usr/bin/env bash
# Builds the image odradek/kafka:VERSION without pulling anything: a Debian base image by debootstrap (root), imported
# into the engine, and Kafka's jars copied in. Does nothing if the image is up to date. BASE_IMAGE, any image with Java
# 17 or newer, replaces the debootstrap; DEBIAN_MIRROR selects another mirror than debootstrap's default. Of several at
# the same time one builds, and the others wait for it.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"

HERE="$ROOT/docker/kafka"
VERSION="$(sed -n 's:.*<kafka.version>\(.*\)</kafka.version>.*:\1:p' "$HERE/pom.xml")"
IMAGE="odradek/kafka:$VERSION"
BASE="${BASE_IMAGE:-odradek/kafka-base:bookworm}"

inputs() { cat "$HERE/pom.xml" "$HERE/Dockerfile" "$HERE/run.sh" | sha256sum | cut -d' ' -f1; }

build_image() {
  context="$(mktemp -d)"
  trap 'rm -rf "$context"' EXIT
  cp "$HERE/Dockerfile" "$HERE/run.sh" "$context/"
  cp -r "$JARS/kafka" "$context/libs"
  say "building $IMAGE"
  DOCKER_BUILDKIT=0 docker build -q --label "odradek.inputs=$(inputs)" --build-arg "BASE_IMAGE=$BASE" -t "$IMAGE" "$context" >/dev/null 2>&1 \
    || { say "docker build failed"; exit 1; }
  rm -rf "$context"
  trap - EXIT
}

"$ROOT/scripts/ensure_docker.sh"
mkdir -p "$ROOT/.cache"
exec 9>"$ROOT/.cache/kafka-image.lock" # after dockerd was started, which would keep the lock
if command -v flock >/dev/null 2>&1; then flock 9; fi
[ "$(built_from "$IMAGE")" = "$(inputs)" ] && { echo "$IMAGE"; exit 0; }
"$ROOT/scripts/fetch_jars.sh" kafka
has_image "$BASE" || debian_base "$BASE" openjdk-17-jre-headless,ca-certificates-java
build_image
echo "$IMAGE"
