#!/usr/bin/env bash
# Builds the image odradek/kafka:VERSION without pulling anything: a Debian base image by debootstrap (root), imported
# into the engine, and Kafka's jars copied in. Does nothing when the image is there. BASE_IMAGE=any image with a
# Java 17+ skips the debootstrap; DEBIAN_MIRROR chooses another mirror than debootstrap's own.
set -euo pipefail
. "$(dirname "$0")/../../scripts/lib.sh"

HERE="$ROOT/docker/kafka"
VERSION="$(sed -n 's:.*<kafka.version>\(.*\)</kafka.version>.*:\1:p' "$HERE/pom.xml")"
IMAGE="odradek/kafka:$VERSION"
BASE="${BASE_IMAGE:-odradek/kafka-base:bookworm}"

has_image() { docker image inspect "$1" >/dev/null 2>&1; }
inputs() { cat "$HERE/pom.xml" "$HERE/Dockerfile" "$HERE/run.sh" | sha256sum | cut -d' ' -f1; }
built_from() { docker image inspect -f '{{ index .Config.Labels "odradek.inputs" }}' "$IMAGE" 2>/dev/null || true; }

build_base() {
  [ "$(id -u)" = 0 ] || { say "debootstrap needs root: give BASE_IMAGE, or pull apache/kafka"; exit 1; }
  command -v debootstrap >/dev/null 2>&1 || apt_install debootstrap debian-archive-keyring \
    || { say "debootstrap could not be installed"; exit 1; }
  tree="$(mktemp -d)"
  trap 'rm -rf "$tree"' EXIT
  say "building $BASE with debootstrap (under a minute)"
  debootstrap --variant=minbase --include=openjdk-17-jre-headless,ca-certificates-java bookworm \
    "$tree" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} >"$tree.log" 2>&1 || { tail -n 3 "$tree.log" >&2; exit 1; }
  rm -rf "$tree.log" "$tree"/var/cache/apt/archives/*.deb "$tree"/var/lib/apt/lists/*
  tar -C "$tree" -c . | docker import - "$BASE" >/dev/null
  rm -rf "$tree"
  trap - EXIT
}

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
[ "$(built_from)" = "$(inputs)" ] && { echo "$IMAGE"; exit 0; }
"$ROOT/scripts/fetch_jars.sh" kafka
has_image "$BASE" || build_base
build_image
echo "$IMAGE"
