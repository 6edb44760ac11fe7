"""An invalid value for every option and argument of every command: the exit code and the message."""

import shlex
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from odradek.gateway.cli.main import COMMANDS, cli
from odradek.pipeline.cli.pipeline import COMMANDS as PIPELINE_COMMANDS

HUGE = str(2**70)
COMMON = {"--bootstrap", "--timeout", "-X", "--master", "--conf"}
"""Options of many commands that are tested on one of them."""

LOAD = "pipeline load --url sqlite:///x --table t --to-topic t "
EXPORT = "pipeline export t --url sqlite:///x --table t "

WRONG: list[tuple[str, str, int, str]] = [
    # command line (TOPIC: an existing topic, EMPTY: an empty directory), option or argument, exit code, message
    ("topics list --bootstrap host:port", "--bootstrap", 2, "'host:port' is not HOST:PORT"),
    ("topics list --bootstrap 127.0.0.1:70000", "--bootstrap", 2, "is not HOST:PORT"),
    ("topics list --bootstrap 127.0.0.1:-1", "--bootstrap", 2, "is not HOST:PORT"),
    ("topics list --bootstrap ''", "--bootstrap", 2, "is not HOST:PORT"),
    ("topics list --bootstrap 127.0.0.1:9092,,127.0.0.1:9093", "--bootstrap", 2, "'' is not HOST:PORT"),
    ("topics list --timeout 0", "--timeout", 2, "x>=0.1"),
    ("topics list --timeout -5", "--timeout", 2, "x>=0.1"),
    ("topics list --timeout nan", "--timeout", 2, "not a number of seconds"),
    ("topics list --timeout inf", "--timeout", 2, "not a number of seconds"),
    ("topics list --timeout soon", "--timeout", 2, "not a valid float"),
    ("topics list -X client.id", "-X", 2, "is not NAME=VALUE"),
    ("topics list -X no.such=1", "-X", 1, "no.such"),
    ("topics list -X request.timeout.ms=soon", "-X", 1, "request.timeout.ms is a number"),
    ("topics list -X security.protocol=TELNET", "-X", 1, "PLAINTEXT, SSL, SASL_PLAINTEXT"),
    ("topics create 'bad topic!'", "topics create names", 1, "INVALID_TOPIC_EXCEPTION"),
    ("topics create ''", "topics create names", 1, "INVALID_TOPIC_EXCEPTION"),
    ("topics create new -p 0", "topics create --partitions", 2, "the range 1<=x"),
    ("topics create new -p -1", "topics create --partitions", 2, "the range 1<=x"),
    (f"topics create new -p {HUGE}", "topics create --partitions", 2, "x<="),
    ("topics create new -r 0", "topics create --replication-factor", 2, "the range 1<=x"),
    ("topics create new -r 40000", "topics create --replication-factor", 2, "x<=32767"),
    ("topics create new -r 2", "topics create --replication-factor", 1, "INVALID_REPLICATION_FACTOR"),
    ("topics create new -c retention.ms", "topics create --config", 2, "is not NAME=VALUE"),
    ("topics create new -c no.such=1", "topics create --config", 1, "no.such"),
    ("topics create new -c cleanup.policy=shrink", "topics create --config", 1, "compact"),
    ("topics create new -c retention.ms=soon", "topics create --config", 1, "retention.ms"),
    ("topics delete 'bad topic!'", "topics delete names", 2, "is not a topic's name"),
    ("topics delete ''", "topics delete names", 2, "is not a topic's name"),
    ("topics alter 'bad topic!' -p 3", "topics alter name", 2, "is not a topic's name"),
    ("topics alter TOPIC -p 0", "topics alter --partitions", 2, "the range 1<=x"),
    (f"topics alter TOPIC -p {HUGE}", "topics alter --partitions", 2, "x<="),
    ("topics alter TOPIC -c =1", "topics alter --config", 2, "is not NAME=VALUE"),
    ("topics alter TOPIC -c retention.ms=soon", "topics alter --config", 1, "retention.ms"),
    ("topics alter TOPIC -d no.such", "topics alter --delete-config", 1, "no.such"),
    ("topics describe 'bad topic!'", "topics describe names", 2, "is not a topic's name"),
    ("topics describe ..", "topics describe names", 2, "is not a topic's name"),
    ("produce 'bad topic!'", "produce topic", 2, "is not a topic's name"),
    ("produce ''", "produce topic", 2, "is not a topic's name"),
    ("produce TOPIC -K ''", "produce --key-separator", 2, "empty"),
    ("produce TOPIC -H name", "produce --header", 2, "is not NAME=VALUE"),
    ("produce TOPIC --input csv", "produce --input", 2, "'lines', 'json'"),
    ("produce TOPIC -p -1", "produce --partition", 2, "the range 0<=x"),
    (f"produce TOPIC -p {HUGE}", "produce --partition", 2, "x<="),
    ("produce TOPIC -p 7", "produce --partition", 1, "has no partition 7"),
    ("produce TOPIC -z zip", "produce --codec", 2, "'gzip', 'snappy', 'lz4', 'zstd'"),
    ("produce TOPIC --acks -1", "produce --acks", 2, "'0', '1', 'all'"),
    ("produce TOPIC --max-record-bytes 0", "produce --max-record-bytes", 2, "the range 1<=x"),
    (f"produce TOPIC --max-record-bytes {HUGE}", "produce --max-record-bytes", 2, "x<="),
    ("produce TOPIC --client netcat", "produce --client", 2, "'auto', 'confluent-kafka', 'kafka-python'"),
    ("consume 'bad topic!'", "consume topic", 2, "is not a topic's name"),
    ("consume TOPIC --from yesterday", "consume --from", 2, "`earliest`, `latest`, an offset"),
    ("consume TOPIC --from ''", "consume --from", 2, "`earliest`, `latest`, an offset"),
    (f"consume TOPIC --from {HUGE}", "consume --from", 2, "an offset"),
    (f"consume TOPIC --from -{HUGE}", "consume --from", 2, "an offset"),
    ("consume TOPIC --from 2013-13-01", "consume --from", 2, "a time such as"),
    ("consume TOPIC -p -1", "consume --partition", 2, "the range 0<=x"),
    ("consume TOPIC -p 7", "consume --partition", 1, "has no partition 7"),
    (f"consume TOPIC -p {HUGE}", "consume --partition", 2, "x<="),
    ("consume TOPIC -g ''", "consume --group", 2, "empty"),
    ("consume TOPIC -n 0", "consume --max-messages", 2, "the range x>=1"),
    ("consume TOPIC -n -5", "consume --max-messages", 2, "the range x>=1"),
    ("consume TOPIC -o table", "consume --format", 2, "value, key-value, full, json"),
    ("consume TOPIC -o ''", "consume --format", 2, "value, key-value, full, json"),
    ("consume TOPIC -o '{nope}'", "consume --format", 2, "there are topic, partition, offset"),
    (r"consume TOPIC -o '{key}\x'", "consume --format", 2, r"there are \t"),
    ("consume TOPIC --isolation serializable", "consume --isolation", 2, "'read_uncommitted', 'read_committed'"),
    ("consume TOPIC --client netcat", "consume --client", 2, "'auto', 'confluent-kafka', 'kafka-python'"),
    ("consume TOPIC -X auto.commit.interval.ms=-1", "consume -X", 2, "number of milliseconds"),
    ("consume TOPIC -X auto.commit.interval.ms=often", "consume -X", 2, "number of milliseconds"),
    ("groups list --state Bogus", "groups list --state", 2, "PreparingRebalance"),
    ("groups list --state ''", "groups list --state", 2, "PreparingRebalance"),
    ("groups list --type Bogus", "groups list --type", 2, "classic"),
    ("groups describe ''", "groups describe names", 2, "empty"),
    ("groups delete ''", "groups delete names", 2, "empty"),
    ("groups delete-offsets '' -t TOPIC", "groups delete-offsets group", 2, "empty"),
    ("groups delete-offsets g -t TOPIC:x", "groups delete-offsets --topic", 2, "is not TOPIC or TOPIC:0,1,2"),
    ("groups delete-offsets g -t TOPIC:-1", "groups delete-offsets --topic", 2, "is not TOPIC or TOPIC:0,1,2"),
    ("groups delete-offsets g -t :0", "groups delete-offsets --topic", 2, "is not TOPIC or TOPIC:0,1,2"),
    (f"groups delete-offsets g -t TOPIC:{HUGE}", "groups delete-offsets --topic", 2, "is not TOPIC or TOPIC:0,1,2"),
    ("groups reset-offsets '' -t TOPIC --to-latest", "groups reset-offsets group", 2, "empty"),
    ("groups reset-offsets g -t 'bad topic!' --to-latest", "groups reset-offsets --topic", 2, "is not TOPIC"),
    ("groups reset-offsets g -t TOPIC: --to-latest", "groups reset-offsets --topic", 2, "is not TOPIC or TOPIC:0,1,2"),
    ("groups reset-offsets g -t TOPIC --to-offset -1", "groups reset-offsets --to-offset", 2, "the range 0<=x"),
    (f"groups reset-offsets g -t TOPIC --to-offset {HUGE}", "groups reset-offsets --to-offset", 2, "x<="),
    ("groups reset-offsets g -t TOPIC --to-datetime noon", "groups reset-offsets --to-datetime", 2, "such as 2013-01"),
    ("groups reset-offsets g -t TOPIC --by-duration P1Y", "groups reset-offsets --by-duration", 2, "such as P1D"),
    (f"groups reset-offsets g -t TOPIC --by-duration P{HUGE}D", "groups reset-offsets --by-duration", 2, "such as P1D"),
    ("groups reset-offsets g -t TOPIC --shift-by far", "groups reset-offsets --shift-by", 2, "not a valid int"),
    (f"groups reset-offsets g -t TOPIC --shift-by {HUGE}", "groups reset-offsets --shift-by", 2, "<=x<="),
    ("groups reset-offsets g --from-file /nonexistent", "groups reset-offsets --from-file", 2, "No such file"),
    ("groups reset-offsets g --from-file /", "groups reset-offsets --from-file", 2, "directory"),
    ("transactions list --state Bogus", "transactions list --state", 2, "Ongoing"),
    ("transactions list --producer-id -5", "transactions list --producer-id", 2, "the range 0<=x"),
    (f"transactions list --producer-id {HUGE}", "transactions list --producer-id", 2, "x<="),
    ("transactions list --longer-than -PT5M", "transactions list --longer-than", 2, "negative"),
    ("transactions list --longer-than 5m", "transactions list --longer-than", 2, "such as P1D"),
    ("transactions list --pattern '('", "transactions list --pattern", 1, "INVALID_REGULAR_EXPRESSION"),
    ("transactions describe ''", "transactions describe ids", 2, "empty"),
    ("transactions describe-producers TOPIC:x", "transactions describe-producers places", 2, "is not TOPIC or"),
    ("transactions abort TOPIC:x --start-offset 0", "transactions abort place", 2, "is not TOPIC or"),
    ("transactions abort TOPIC:0 --start-offset -1", "transactions abort --start-offset", 2, "the range 0<=x"),
    ("transactions abort TOPIC:0 --producer-id -1 --epoch 0", "transactions abort --producer-id", 2, "the range 0<=x"),
    ("transactions abort TOPIC:0 --producer-id 1 --epoch 40000", "transactions abort --epoch", 2, "x<=32767"),
    ("transactions abort TOPIC:0 --producer-id 1 --epoch -1", "transactions abort --epoch", 2, "the range 0<=x"),
    (
        f"transactions abort TOPIC:0 --producer-id 1 --epoch 0 --coordinator-epoch {HUGE}",
        "transactions abort --coordinator-epoch", 2, "x<=",
    ),
    ("transactions find-hanging --topic 'bad topic!'", "transactions find-hanging --topic", 2, "is not TOPIC or"),
    ("transactions find-hanging --older-than -PT1M", "transactions find-hanging --older-than", 2, "negative"),
    ("features upgrade group.version", "features upgrade levels", 2, "is not NAME=LEVEL"),
    ("features upgrade group.version=-1", "features upgrade levels", 2, "is not NAME=LEVEL"),
    ("features upgrade group.version=40000", "features upgrade levels", 2, "is not NAME=LEVEL"),
    ("features upgrade --feature x=y", "features upgrade --feature", 2, "is not NAME=LEVEL"),
    ("features downgrade x=y", "features downgrade levels", 2, "is not NAME=LEVEL"),
    ("features downgrade --feature x", "features downgrade --feature", 2, "is not NAME=LEVEL"),
    ("features disable no.such", "features disable names", 1, "no.such"),
    ("features disable --feature no.such", "features disable --feature", 1, "no.such"),
    ("features disable ''", "features disable names", 2, "empty"),
    ("configs list --scope cluster", "configs list --scope", 2, "'topic', 'broker', 'group'"),
    ("configs describe cluster x", "configs describe kind", 2, "'topic', 'broker', 'group'"),
    ("configs describe topic ''", "configs describe names", 2, "empty"),
    ("configs describe topic 'bad topic!'", "configs describe names", 1, "INVALID_TOPIC_EXCEPTION"),
    ("configs describe broker 77", "configs describe names", 1, "there is no broker '77'"),
    ("configs alter cluster x -s a=b", "configs alter kind", 2, "'topic', 'broker', 'group'"),
    ("configs alter topic '' -s a=b", "configs alter names", 2, "empty"),
    ("configs alter topic TOPIC -s retention.ms", "configs alter --set", 2, "is not NAME=VALUE"),
    ("configs alter topic TOPIC -s no.such=1", "configs alter --set", 1, "no.such"),
    ("configs alter topic TOPIC -s retention.ms=soon", "configs alter --set", 1, "retention.ms"),
    ("configs alter topic TOPIC -u ''", "configs alter --unset", 2, "empty"),
    ("configs alter topic TOPIC --append cleanup.policy=shrink", "configs alter --append", 1, "cleanup.policy"),
    ("configs alter topic TOPIC --subtract retention.ms=1", "configs alter --subtract", 1, "retention.ms"),
    ("pipeline restore EMPTY --to-topic TOPIC --conf x", "--conf", 2, "is not NAME=VALUE"),
    ("pipeline restore /nonexistent --to-topic TOPIC", "pipeline restore path", 2, "there is nothing at"),
    ("pipeline restore EMPTY --to-topic 'bad topic!'", "pipeline restore --to-topic", 2, "is not a topic's name"),
    ("pipeline restore EMPTY --to-topic t --from-topic ''", "pipeline restore --from-topic", 2, "is not a topic's"),
    ("pipeline restore EMPTY --to-topic t --from yesterday", "pipeline restore --from", 2, "is no offset"),
    ("pipeline restore EMPTY --to-topic t --from -1", "pipeline restore --from", 2, "is no offset"),
    ("pipeline restore EMPTY --to-topic t --from '{\"0\": -1}'", "pipeline restore --from", 2, "is no offset"),
    ("pipeline restore EMPTY --to-topic t --until '{'", "pipeline restore --until", 2, "is no offset"),
    (f"pipeline restore EMPTY --to-topic t --until {HUGE}", "pipeline restore --until", 2, "is no offset"),
    ("pipeline restore EMPTY --to-topic t -z zip", "pipeline restore --codec", 2, "'gzip', 'snappy', 'lz4', 'zstd'"),
    ("pipeline restore EMPTY --to-topic t --max-fill -1", "pipeline restore --max-fill", 2, "<=x<="),
    ("pipeline restore EMPTY --to-topic t -c x", "pipeline restore --topic-config", 2, "is not NAME=VALUE"),
    ("pipeline load --url ''", "pipeline load --url", 2, "empty"),
    ("pipeline load --bulk --table t --to-topic t --url tape://x", "pipeline load --url", 1, "no such database"),
    ("pipeline load --table ''", "pipeline load --table", 2, "empty"),
    ("pipeline load --to-topic 'bad topic!'", "pipeline load --to-topic", 2, "is not a topic's name"),
    ("pipeline load --incrementing ''", "pipeline load --incrementing", 2, "is not a list of different columns"),
    (LOAD + "--incrementing a,b", "pipeline load --incrementing", 2, "it is one column"),
    ("pipeline load --timestamp a,,b", "pipeline load --timestamp", 2, "is not a list of different columns"),
    ("pipeline load --key a,a", "pipeline load --key", 2, "is not a list of different columns"),
    ("pipeline load --value xml", "pipeline load --value", 2, "'json', 'avro'"),
    (LOAD + "--bulk --value avro", "pipeline load --value", 2, "--value avro with --schema"),
    ("pipeline load --schema /", "pipeline load --schema", 2, "is a directory"),
    (LOAD + "--bulk --schema x.avsc", "pipeline load --schema", 2, "goes with --value avro"),
    ("pipeline load --job 'my job'", "pipeline load --job", 2, "is not a job's name"),
    ("pipeline load --batch-rows 0", "pipeline load --batch-rows", 2, "1<=x<=1000000"),
    ("pipeline load --delay soon", "pipeline load --delay", 2, "a length of time such as 10s"),
    ("pipeline load --delay -5s", "pipeline load --delay", 2, "a length of time such as 10s"),
    ("pipeline load --zone Mars/Olympus", "pipeline load --zone", 2, "is not a time zone"),
    ("pipeline load --every 10", "pipeline load --every", 2, "a length of time such as 10s"),
    (LOAD + "--bulk --incrementing id", "pipeline load --incrementing", 2, "or --bulk"),
    ("pipeline export 'bad topic!'", "pipeline export topic", 2, "is not a topic's name"),
    ("pipeline export t --url ''", "pipeline export --url", 2, "empty"),
    ("pipeline export t --table t --url jdbc:derby:x", "pipeline export --url", 1, "JDBC sink cannot"),
    ("pipeline export t --table t --url sqlite://", "pipeline export --url", 1, "in memory"),
    ("pipeline export t --table ''", "pipeline export --table", 2, "empty"),
    ("pipeline export t --mode replace", "pipeline export --mode", 2, "'upsert', 'append'"),
    ("pipeline export t --key ,", "pipeline export --key", 2, "is not a list of different columns"),
    ("pipeline export t --key-from header", "pipeline export --key-from", 2, "'key', 'value'"),
    ("pipeline export t --value xml", "pipeline export --value", 2, "'json', 'avro'"),
    (EXPORT + "--value avro", "pipeline export --value", 2, "needs --schema FILE"),
    ("pipeline export t --schema /", "pipeline export --schema", 2, "is a directory"),
    ("pipeline export t --job ''", "pipeline export --job", 2, "is not a job's name"),
    ("pipeline export t --batch-rows 1000001", "pipeline export --batch-rows", 2, "1<=x<=1000000"),
    ("pipeline export t --group ''", "pipeline export --group", 2, "empty"),
    ("pipeline export t --every 1d", "pipeline export --every", 2, "a length of time such as 10s"),
    ("pipeline transform --from-topic '' --to-topic t --sql x", "pipeline transform --from-topic", 2, "a topic's name"),
    ("pipeline transform --from-topic f --to-topic . --sql x", "pipeline transform --to-topic", 2, "a topic's name"),
    ("pipeline transform --from-topic f --to-topic t --sql ''", "pipeline transform --sql", 2, "empty"),
    ("pipeline transform --from-topic f --to-topic t", "pipeline transform --sql", 2, "one of --sql and --function"),
    ("pipeline transform --from-topic f --to-topic t --function m", "pipeline transform --function", 1, "--function m"),
    ("pipeline transform --from-topic f --to-topic t --function os:x", "pipeline transform --function", 1, "'x'"),
    ("pipeline transform --from-topic f --to-topic t --group ''", "pipeline transform --group", 2, "empty"),
    ("pipeline transform --from-topic f --to-topic t --batch 0", "pipeline transform --batch", 2, "1<=x<="),
    ("pipeline transform --from-topic f --to-topic t -z zip", "pipeline transform --codec", 2, "'snappy'"),
    ("pipeline transform --from-topic f --to-topic t --every 0", "pipeline transform --every", 2, "a length of time"),
    ("pipeline audit 'bad topic!'", "pipeline audit topic", 2, "is not a topic's name"),
    ("pipeline audit TOPIC --archive ''", "pipeline audit --archive", 2, "empty"),
    ("pipeline audit TOPIC --archive /nonexistent", "pipeline audit --archive", 1, "/nonexistent"),
    ("pipeline audit TOPIC --data ''", "pipeline audit --data", 2, "empty"),
    ("pipeline audit TOPIC --data /nonexistent", "pipeline audit --data", 1, "/nonexistent"),
    ("pipeline audit TOPIC --against host:port/t", "pipeline audit --against", 2, "is not HOST:PORT"),
    ("pipeline audit TOPIC --against 127.0.0.1:9092", "pipeline audit --against", 2, "is not HOST:PORT/TOPIC"),
    ("pipeline audit TOPIC --html ''", "pipeline audit --html", 2, "empty"),
    ("simulate --seed -1", "simulate --seed", 2, "0<=x"),
    ("simulate --seeds 5-1", "simulate --seeds", 2, "is not a range of seeds"),
    ("simulate --seeds 5", "simulate --seeds", 2, "is not a range of seeds"),
    ("simulate --seed 1 --seeds 1-2", "simulate --seeds", 2, "one of --seed and --seeds"),
    ("simulate", "simulate --seed", 2, "one of --seed and --seeds"),
    ("simulate --seed 1 --minutes 0", "simulate --minutes", 2, "0.05<=x"),
    ("simulate --seed 1 --brokers 2", "simulate --brokers", 2, "3<=x"),
    ("simulate --seed 1 --voters 0", "simulate --voters", 2, "1<=x"),
    ("simulate --seeds 1-2 --jobs 0", "simulate --jobs", 2, "1<=x"),
    ("simulate --seed 1 --faults kill,flood", "simulate --faults", 2, "'flood' is not a kind of fault"),
    ("mirror --from host:port --to b:1", "mirror --from", 2, "is not HOST:PORT"),
    ("mirror --from a:1 --to ''", "mirror --to", 2, "is not HOST:PORT"),
    ("mirror --from a:1 --to b:1 --topics [", "mirror --topics", 2, "is not a regular expression"),
    ("mirror --from a:1 --to b:1 --groups (", "mirror --groups", 2, "is not a regular expression"),
    ("mirror --from a:1 --to b:1 --from-X x", "mirror --from-X", 2, "is not NAME=VALUE"),
    ("mirror --from a:1 --to b:1 --to-X x", "mirror --to-X", 2, "is not NAME=VALUE"),
    ("completion csh", "completion shell", 2, "'bash', 'zsh', 'fish'"),
    ("serve --listen 9092", "serve --listen", 2, "is not HOST:PORT"),
    ("serve --listen 127.0.0.1:70000", "serve --listen", 2, "is not HOST:PORT"),
    ("serve --advertise localhost:0", "serve --advertise", 2, "is not HOST:PORT"),
    ("serve --data /etc/passwd", "serve --data", 2, "is a file"),
    ("serve --storage tape://x", "serve --storage", 1, "tape"),
    ("serve --metrics 9404", "serve --metrics", 2, "'9404' is not HOST:PORT"),
    ("serve --brokers 0", "serve --brokers", 2, "the range 1<=x<=100"),
    ("serve --brokers 3 --storage memory://", "serve --brokers", 2, "--brokers and --storage exclude each other"),
    ("serve --brokers 3 --listen 127.0.0.1:0", "serve --brokers", 2, "--listen needs a port"),
    ("serve --brokers 3 --listen 0.0.0.0:9092", "serve --brokers", 2, "--listen needs an address that clients"),
    ("serve --brokers 3 --listen :9092", "serve --brokers", 2, "--listen needs an address that clients"),
    ("serve --brokers 3 --listen 127.0.0.1:9092 --metrics h:0", "serve --metrics", 2, "--metrics needs a port"),
    ("serve --log-node one", "serve --log-node", 2, "is not a valid integer"),
    ("serve --config /nonexistent", "serve --config", 2, "does not exist"),
    ("serve --set x", "serve --set", 2, "is not NAME=VALUE"),
    ("serve --set log.segment.bytes=many", "serve --set", 1, "log.segment.bytes"),
    ("serve --log-format xml", "serve --log-format", 2, "json"),
    ("serve --log-level loud", "serve --log-level", 2, "'debug', 'info', 'warning', 'error'"),
    ("recover --data /etc/passwd", "recover --data", 2, "is a file"),
    ("sql 'SELEKT 1' --storage sqlite:///EMPTY/none.db", "sql statement", 1, "there is no database"),
    ("sql 'SELECT 1' --data /nonexistent", "sql --data", 1, "there is no directory /nonexistent"),
    ("sql 'SELECT 1' --config /nonexistent", "sql --config", 2, "does not exist"),
    ("sql 'SELECT 1' --storage tape://x", "sql --storage", 1, "tape"),
    ("sql --data EMPTY --backfill hello", "sql --backfill", 1, "only a SQL database keeps records as rows"),
    ("cluster elect 'bad topic!'", "cluster elect topics", 2, "is not a topic's name"),
    ("cluster reassign 'bad topic!' --brokers 1", "cluster reassign topics", 2, "is not a topic's name"),
    ("cluster reassign TOPIC --brokers 1,x", "cluster reassign --brokers", 2, "a list of broker ids such as 1,2,3"),
    ("cluster reassign TOPIC --brokers 1,1", "cluster reassign --brokers", 2, "a list of broker ids such as 1,2,3"),
    ("cluster reassign TOPIC --brokers 77", "cluster reassign --brokers", 1, "there is no broker 77"),
    ("cluster reassign TOPIC --brokers 1 --throttle 0", "cluster reassign --throttle", 2, "the range 1<=x"),
    ("cluster reassign TOPIC --cancel --throttle 5", "cluster reassign --throttle", 2, "not for what is cancelled"),
    ("cluster add 77", "cluster add brokers", 1, "there is no broker 77"),
    ("cluster add 1 --throttle 0", "cluster add --throttle", 2, "the range 1<=x"),
    ("cluster drain 1 --throttle fast", "cluster drain --throttle", 2, "not a valid integer"),
    ("cluster drain -- -1", "cluster drain brokers", 2, "the range 0<=x"),
    ("cluster drain 77", "cluster drain brokers", 1, "there is no broker 77"),
    ("cluster remove -- -1", "cluster remove nodes", 2, "the range 0<=x"),
    ("cluster remove 77", "cluster remove nodes", 1, "BROKER_ID_NOT_REGISTERED"),
    ("recover --data /nonexistent", "recover --data", 1, "there is no directory"),
    ("recover --data EMPTY --adopt ''", "recover --adopt", 1, "names no topics that were set aside"),
    ("recover --data EMPTY --partitions orders", "recover --partitions", 2, "is not NAME=VALUE"),
    ("recover --data EMPTY --partitions orders=0", "recover --partitions", 2, "TOPIC=COUNT"),
    ("recover --config /nonexistent", "recover --config", 2, "does not exist"),
    ("recover --set x", "recover --set", 2, "is not NAME=VALUE"),
    ("recover --data EMPTY --set log.segment.bytes=many", "recover --set", 1, "log.segment.bytes"),
    ("pipeline archive 'bad topic!' --to EMPTY/t", "pipeline archive topics", 2, "is not a topic's name"),
    ("pipeline archive TOPIC --to ''", "pipeline archive --to", 2, "empty"),
    ("pipeline archive TOPIC --to EMPTY/t --format csv", "pipeline archive --format", 2, "'parquet', 'iceberg'"),
    ("pipeline archive TOPIC --to EMPTY/t --from yesterday", "pipeline archive --from", 2, "`latest`, a time"),
    ("pipeline archive TOPIC --to EMPTY/t --from '[1]'", "pipeline archive --from", 2, "`latest`, a time"),
    ("pipeline archive TOPIC --to EMPTY/t --from '{\"t\": [1]}'", "pipeline archive --from", 2, "offsets such"),
    ("pipeline archive TOPIC --to EMPTY/t --from '{\"t\": {\"0\": -3}}'", "pipeline archive --from", 2, "offsets such"),
    ("pipeline archive TOPIC --to EMPTY/t --every 0s", "pipeline archive --every", 2, "a length of time such as 10s"),
    ("pipeline archive TOPIC --to EMPTY/t --every 10", "pipeline archive --every", 2, "a length of time such as 10s"),
    (f"pipeline archive TOPIC --to EMPTY/t --every {HUGE}s", "pipeline archive --every", 2, "up to a week"),
    ("pipeline archive TOPIC --to EMPTY/t --group ''", "pipeline archive --group", 2, "empty"),
    ("pipeline archive TOPIC --to EMPTY/t --value xml", "pipeline archive --value", 2, "'json', 'avro', 'protobuf'"),
    ("pipeline archive TOPIC --to EMPTY/t --value avro", "pipeline archive --schema", 2, "needs --schema FILE"),
    ("pipeline archive TOPIC --to EMPTY/t --schema x", "pipeline archive --schema", 2, "--schema needs --value"),
    ("pipeline archive TOPIC --to EMPTY/t --value json --schema /nonexistent", "pipeline archive --schema", 2, "No s"),
    ("pipeline archive TOPIC --to EMPTY/t --key xml", "pipeline archive --key", 2, "'json', 'avro', 'protobuf'"),
    ("pipeline archive TOPIC --to EMPTY/t --key avro --key-schema /", "pipeline archive --key-schema", 2, "directory"),
    ("pipeline archive TOPIC --to EMPTY/t --framing x", "pipeline archive --framing", 2, "'none', 'confluent'"),
    ("pipeline archive TOPIC --to EMPTY/t --partition-by week", "pipeline archive --partition-by", 2, "'date', 'hour'"),
    ("pipeline archive TOPIC --to EMPTY/t --target-size 12", "pipeline archive --target-size", 2, "of 1KB or more"),
    ("pipeline archive TOPIC --to EMPTY/t --target-size big", "pipeline archive --target-size", 2, "such as 128MB"),
    ("pipeline archive TOPIC --to EMPTY/t --max-offsets 0", "pipeline archive --max-offsets", 2, "1<=x"),
    ("pipeline archive TOPIC --to EMPTY/t --conf spark.x", "--conf", 2, "is not NAME=VALUE"),
    ("pipeline archive TOPIC --to EMPTY/t --drop-raw", "pipeline archive --drop-raw", 2, "give one of them"),
    ("pipeline compact ''", "pipeline compact path", 2, "empty"),
    ("pipeline compact EMPTY --target-size 0", "pipeline compact --target-size", 2, "of 1KB or more"),
]  # fmt: skip

ANYTHING_GOES = {"produce --key", "produce --null-value", "serve --ready-message", "--master"}
"""Options that accept any text."""


@pytest.mark.parametrize(("line", "said"), [(line, (code, said)) for line, _, code, said in WRONG], ids=lambda x: None)
def test_a_wrong_value_is_refused(odradek, shared_topic, tmp_path, line, said):
    code, text = said
    arguments = [part.replace("TOPIC", shared_topic).replace("EMPTY", str(tmp_path)) for part in shlex.split(line)]
    refused = odradek(*arguments, stdin="", code=code)
    assert text in refused.stderr
    assert refused.stdout == ""


@pytest.fixture(scope="module")
def shared_topic(bootstrap) -> str:
    assert CliRunner().invoke(cli, ["topics", "create", "wrong-values", "-p", "2", "-b", bootstrap]).exit_code == 0
    return "wrong-values"


def commands(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from commands(command.get_command(context, name), (*path, name))
    else:
        yield " ".join(path), command


def values() -> Iterator[str]:
    """Every option and argument that takes a value, by its name in the table."""
    context = click.Context(cli)
    for name in COMMANDS:
        for path, command in commands(cli.get_command(context, name), (name,)):
            for parameter in command.params:
                if isinstance(parameter, click.Option) and parameter.is_flag:
                    continue
                option = max(parameter.opts, key=len) if isinstance(parameter, click.Option) else parameter.name
                option = {"--bootstrap-server": "--bootstrap"}.get(option, option)
                yield option if option in COMMON else f"{path} {option}"


def test_the_commands_of_groups_that_import_them_late_are_seen():
    context = click.Context(cli)
    seen = {path for path, _ in commands(cli.get_command(context, "pipeline"), ("pipeline",))}
    assert seen == {f"pipeline {name}" for name in PIPELINE_COMMANDS}


def test_no_option_is_left_out():
    """Add a new option to the table above, or to the options that accept any text."""
    assert set(values()) - {which for _, which, _, _ in WRONG} - ANYTHING_GOES == set()
