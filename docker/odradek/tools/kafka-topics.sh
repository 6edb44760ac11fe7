#!/bin/sh
# The actions of Kafka's kafka-topics.sh that compose files and start scripts use: --list, --create, --describe,
# --delete.
set -eu

action="" topic="" bootstrap="" partitions="" replication="" absent="" exists=""
usage() {
  echo "kafka-topics.sh: $1; this image has --list, --create, --describe, --delete with --topic, --partitions," \
    "--replication-factor, --config, --if-not-exists, --if-exists, --bootstrap-server; see odradek topics --help" >&2
  exit 1
}
configs=""
while [ $# -gt 0 ]; do
  case "$1" in
    --*=*) option="${1%%=*}" value="${1#*=}"; shift; set -- "$option" "$value" "$@"; continue ;;
    --list | --create | --describe | --delete) action="${1#--}" ;;
    --if-not-exists) absent=--if-not-exists ;;
    --if-exists) exists=--if-exists ;;
    --topic | --bootstrap-server | --partitions | --replication-factor | --config | --command-config)
      [ $# -gt 1 ] || usage "$1 needs a value"
      case "$1" in
        --topic) topic="$2" ;;
        --bootstrap-server) bootstrap="$2" ;;
        --partitions) partitions="-p $2" ;;
        --replication-factor) replication="-r $2" ;;
        --config) configs="$configs -c $2" ;;
      esac
      shift
      ;;
    *) usage "unknown option $1" ;;
  esac
  shift
done
[ -z "$bootstrap" ] || export ODRADEK_BOOTSTRAP="$bootstrap"
# shellcheck disable=SC2086 # options without spaces, some empty
case "$action" in
  list) exec odradek topics list --internal ;;
  create) exec odradek topics create $partitions $replication $configs $absent -- "$topic" ;;
  describe) exec odradek topics describe $topic ;;
  delete) exec odradek topics delete --yes $exists -- "$topic" ;;
  *) usage "no action" ;;
esac
