"""The SQL functions of the outbox: `append` for users, the trigger that assigns turns, and helpers.

If the store is in the schema `public`, they are in a schema of their own, `odradek`; otherwise in the store's schema
(`shop.append`). `append` and the trigger run with the privileges of the store's owner: users need USAGE of the schema
and EXECUTE of its functions, and no privileges on the tables.
"""

from itertools import product
from typing import Final

CHANNEL: Final = "odradek_outbox"
"""The channel of notifications; the payload is the store's schema."""
DEFAULT_SCHEMA: Final = "public"

_MURMUR2 = """
CREATE FUNCTION {api}.murmur2(key bytea) RETURNS integer
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $function$
-- Kafka's hash of keys, as in org.apache.kafka.common.utils.Utils; unsigned 32-bit arithmetic in bigint.
DECLARE
  low CONSTANT bigint := 4294967295;
  m CONSTANT bigint := 1540483477;
  size CONSTANT integer := length(key);
  whole CONSTANT integer := size - size % 4;
  h bigint := (2538058380 # size) & low;
  k bigint;
BEGIN
  FOR i IN 0 .. whole - 1 BY 4 LOOP
    k := get_byte(key, i) | (get_byte(key, i + 1) << 8) | (get_byte(key, i + 2) << 16)
      | (get_byte(key, i + 3)::bigint << 24);
    k := (k * m) & low;
    k := ((k # (k >> 24)) * m) & low;
    h := ((h * m) & low) # k;
  END LOOP;
  IF size % 4 = 3 THEN
    h := h # (get_byte(key, whole + 2) << 16);
  END IF;
  IF size % 4 >= 2 THEN
    h := h # (get_byte(key, whole + 1) << 8);
  END IF;
  IF size % 4 >= 1 THEN
    h := ((h # get_byte(key, whole)) * m) & low;
  END IF;
  h := ((h # (h >> 13)) * m) & low;
  h := h # (h >> 15);
  RETURN CASE WHEN h > 2147483647 THEN h - 4294967296 ELSE h END;
END
$function$
"""

_HEADERS = """
CREATE FUNCTION {api}.headers_of(headers jsonb) RETURNS TABLE (name text, content bytea)
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $function$
-- The names and values of headers: {{"name": value}}, or [["name", value], ...], where names may repeat.
DECLARE
  pair jsonb;
  item jsonb;
BEGIN
  FOR pair IN
    SELECT jsonb_build_array(e.key, e.value)
      FROM jsonb_each(CASE WHEN jsonb_typeof(headers) = 'object' THEN headers ELSE '{{}}' END) e
    UNION ALL
    SELECT e.value FROM jsonb_array_elements(CASE WHEN jsonb_typeof(headers) = 'array' THEN headers ELSE '[]' END) e
  LOOP
    IF jsonb_typeof(pair) <> 'array' OR jsonb_array_length(pair) <> 2 OR jsonb_typeof(pair -> 0) <> 'string' THEN
      RAISE EXCEPTION 'malformed header %: one is ["name", value]', pair USING ERRCODE = 'invalid_parameter_value';
    END IF;
    name := pair ->> 0;
    item := pair -> 1;
    CASE
      WHEN jsonb_typeof(item) = 'null' THEN content := NULL;
      WHEN jsonb_typeof(item) = 'string' THEN content := convert_to(pair ->> 1, 'UTF8');
      WHEN jsonb_typeof(item) = 'object' AND item = jsonb_build_object('base64', item -> 'base64')
        AND jsonb_typeof(item -> 'base64') = 'string' THEN
        content := decode(item ->> 'base64', 'base64');
      ELSE
        RAISE EXCEPTION 'malformed header %: a value is a string, null, or {{"base64": "..."}}', pair
          USING ERRCODE = 'invalid_parameter_value';
    END CASE;
    RETURN NEXT;
  END LOOP;
  IF headers IS NOT NULL AND jsonb_typeof(headers) NOT IN ('object', 'array', 'null') THEN
    RAISE EXCEPTION 'malformed headers %: they are {{"name": value}} or [["name", value], ...]', headers
      USING ERRCODE = 'invalid_parameter_value';
  END IF;
END
$function$
"""

_VARINT_BYTES = """
CREATE FUNCTION {api}.varint_bytes(number bigint) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$function$
  SELECT CASE WHEN number < 64 THEN 1 WHEN number < 8192 THEN 2 WHEN number < 1048576 THEN 3
    WHEN number < 134217728 THEN 4 ELSE 5 END
$function$
"""

_BATCH_BYTES = """
CREATE FUNCTION {api}.batch_bytes(key bytea, value bytea, headers jsonb) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $function$
-- The size of a record batch with this record alone, which max.message.bytes bounds.
DECLARE
  body bigint := 3 + coalesce({api}.varint_bytes(length(key)) + length(key)::bigint, 1)
    + coalesce({api}.varint_bytes(length(value)) + length(value)::bigint, 1);
  names bigint := 0;
BEGIN
  IF headers IS NOT NULL THEN
    SELECT count(*), body + coalesce(sum(
        {api}.varint_bytes(octet_length(convert_to(h.name, 'UTF8'))) + octet_length(convert_to(h.name, 'UTF8'))
        + coalesce({api}.varint_bytes(length(h.content)) + length(h.content), 1)), 0)
      INTO names, body FROM {api}.headers_of(headers) h;
  END IF;
  body := body + {api}.varint_bytes(names);
  RETURN 61 + {api}.varint_bytes(body) + body;
END
$function$
"""

_APPEND = """
CREATE FUNCTION {api}.append(
  topic text, key bytea, value bytea, headers jsonb DEFAULT NULL, partition integer DEFAULT NULL
) RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path = {store}, pg_temp AS $function$
DECLARE
  known odradek_outbox_topics%ROWTYPE;
  size_bytes bigint;
  transaction_id bigint;
  chosen integer;
BEGIN
  SELECT * INTO known FROM odradek_outbox_topics t WHERE t.topic = append.topic;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no topic % to append to', coalesce(topic, 'NULL') USING ERRCODE = 'undefined_object',
      HINT = 'Topics are created with Kafka''s tools: odradek topics create. All partitions of a topic must have the '
        'broker of this database as their only replica.';
  END IF;
  IF known.is_compacted AND key IS NULL THEN
    RAISE EXCEPTION 'topic % is compacted: its records need keys', topic USING ERRCODE = 'not_null_violation';
  END IF;
  size_bytes := {api}.batch_bytes(key, value, headers);
  IF size_bytes > known.max_batch_bytes THEN
    RAISE EXCEPTION 'a record of % bytes is larger than max.message.bytes=% of topic %',
      size_bytes, known.max_batch_bytes, topic USING ERRCODE = 'program_limit_exceeded';
  END IF;
  transaction_id := pg_current_xact_id()::text::bigint;
  IF partition IS NOT NULL THEN
    IF partition < 0 OR partition >= known.partitions THEN
      RAISE EXCEPTION 'topic % has no partition %, they are 0 to %', topic, partition, known.partitions - 1
        USING ERRCODE = 'invalid_parameter_value';
    END IF;
    chosen := partition;
  ELSIF key IS NOT NULL THEN
    chosen := ({api}.murmur2(key) & 2147483647) % known.partitions;
  ELSE
    -- One partition for the transaction, as a producer's batch has one; any of them, whatever its number.
    chosen := (hashint8(transaction_id) & 2147483647) % known.partitions;
  END IF;
  INSERT INTO odradek_outbox
    (transaction_id, topic_id, partition, topic, timestamp_ms, size_bytes, key, value, headers)
  VALUES (
    transaction_id, known.topic_id, chosen, known.topic,
    floor(extract(epoch FROM clock_timestamp()) * 1000), size_bytes, key, value, headers
  );
  RETURN chosen;
END
$function$
"""

_OVERLOAD = """
CREATE FUNCTION {api}.append(
  topic text, key {key}, value {value}, headers jsonb DEFAULT NULL, partition integer DEFAULT NULL
) RETURNS integer LANGUAGE sql AS $function$
  SELECT {api}.append(topic, {key_bytes}, {value_bytes}, headers, partition)
$function$
"""
_BYTES_OF = {
    "bytea": "{}",
    "text": "convert_to({}, 'UTF8')",
    "json": "convert_to({}::text, 'UTF8')",
    "jsonb": "convert_to({}::text, 'UTF8')",
}

_TAKE_TURNS = """
CREATE FUNCTION {api}.take_turns() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = {store}, pg_temp AS $function$
-- Runs at the commit, for each record; the first of them takes the transaction's turns in all its partitions.
DECLARE
  place record;
BEGIN
  IF EXISTS (
    SELECT FROM odradek_outbox_turns t
    WHERE t.transaction_id = NEW.transaction_id AND t.topic_id = NEW.topic_id AND t.partition = NEW.partition
  ) THEN
    RETURN NULL;
  END IF;
  FOR place IN
    SELECT DISTINCT hashtextextended(o.topic_id::text, o.partition) AS lock, o.topic_id, o.partition
    FROM odradek_outbox o
    WHERE o.transaction_id = NEW.transaction_id AND NOT EXISTS (
      SELECT FROM odradek_outbox_turns t
      WHERE t.transaction_id = o.transaction_id AND t.topic_id = o.topic_id AND t.partition = o.partition
    )
    ORDER BY 1, 2, 3
  LOOP
    -- Held until the commit is visible: the next number of this partition is given after it.
    PERFORM pg_advisory_xact_lock(place.lock);
    INSERT INTO odradek_outbox_turns (number, transaction_id, topic_id, partition)
      VALUES (nextval('odradek_outbox_turn'), NEW.transaction_id, place.topic_id, place.partition);
  END LOOP;
  PERFORM pg_notify('{channel}', {store_text});
  RETURN NULL;
END
$function$
"""

_TRIGGER = """
CREATE CONSTRAINT TRIGGER odradek_outbox_turns AFTER INSERT ON {store}.odradek_outbox
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {api}.take_turns()
"""

_REVOKE = "REVOKE ALL ON FUNCTION {api}.append(text, bytea, bytea, jsonb, integer) FROM PUBLIC"


def api_schema(store: str) -> str:
    """Return the schema of the functions of a store whose tables are in the schema `store`."""
    return "odradek" if store == DEFAULT_SCHEMA else store


def statements(store: str) -> list[str]:
    """Return the statements that create the functions and the trigger of the store in the existing schema `store`."""
    names = {"api": quoted(api_schema(store)), "store": quoted(store)}
    made = [text.format(**names) for text in (_MURMUR2, _HEADERS, _VARINT_BYTES, _BATCH_BYTES, _APPEND)]
    made += [_overload(names["api"], key, value) for key, value in product(("bytea", "text"), _BYTES_OF)][1:]
    text = "'" + store.replace("'", "''") + "'"
    made += [_TAKE_TURNS.format(**names, channel=CHANNEL, store_text=text), _TRIGGER.format(**names)]
    return [*made, _REVOKE.format(**names)]


def quoted(name: str) -> str:
    """Return the name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def _overload(api: str, key: str, value: str) -> str:
    """Return an overload of `append` for keys and values of other types than bytes. PostgreSQL prefers string types for
    literals.
    """
    key_bytes, value_bytes = _BYTES_OF[key].format("key"), _BYTES_OF[value].format("value")
    return _OVERLOAD.format(api=api, key=key, value=value, key_bytes=key_bytes, value_bytes=value_bytes)
