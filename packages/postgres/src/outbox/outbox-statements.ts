/*
 * PostgreSQL takes a batch as arrays, one for each column, and can notify. MySQL and MariaDB insert rows as VALUES, and
 * may have to delete them again.
 */
/** The columns that all tables of messages have in common. */
export const MESSAGE_COLUMNS =
  'shard, id, topic, key, type, content_type, headers, correlation_id, trace_context, payload'

/** The values of these columns, $1 to $10, as one array each. `more` adds an array. */
export function messageArrays(more = ''): string {
  return `rows from (
  pg_catalog.unnest($1::smallint[]), pg_catalog.unnest($2::text[]), pg_catalog.unnest($3::text[]), pg_catalog.unnest($4::text[]),
  pg_catalog.unnest($5::text[]), pg_catalog.unnest($6::text[]), pg_catalog.unnest($7::text[]), pg_catalog.unnest($8::text[]),
  pg_catalog.unnest($9::text[]), pg_catalog.unnest($10::bytea[])${more}
)`
}

/** All statements on the outbox table that a producer runs. `schema` is quoted. */
export function outboxStatements(schema: string) {
  const outbox = `${schema}.outbox (${MESSAGE_COLUMNS})`
  return {
    append: `
insert into ${outbox}
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,

    /**
     * Inserts many messages, numbered in the order given: the default of seq is evaluated after the sort. VALUES would
     * need ten parameters per row, and PostgreSQL accepts at most 65,535 parameters.
     */
    appendBatch: `
insert into ${outbox}
select ${MESSAGE_COLUMNS}
from ${messageArrays()} with ordinality as given (${MESSAGE_COLUMNS}, n)
order by n`,

    /**
     * Like `append`, but first takes the lock of the ordering key ($11) until the transaction ends. The number is drawn
     * only after the CTE has taken the lock: the default of seq is evaluated on rows of the join, and every join plan
     * reads the CTE first. A CTE that is not referenced would not run at all.
     */
    appendLocked: `
with locked as materialized (select pg_catalog.pg_advisory_xact_lock($11::bigint))
insert into ${outbox}
select $1::smallint, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::text, $9::text, $10::bytea
from locked`,

    /**
     * Like `appendBatch`, but first takes the locks ($11), in the order of their numbers, so that all calls lock in the
     * same order.
     */
    appendBatchLocked: `
with locked as materialized (
  select pg_catalog.count(pg_catalog.pg_advisory_xact_lock(number)) as n
  from (select number from pg_catalog.unnest($11::bigint[]) as wanted (number) order by number) as in_order
)
insert into ${outbox}
select ${MESSAGE_COLUMNS}
from locked cross join ${messageArrays()} with ordinality as given (${MESSAGE_COLUMNS}, n)
order by given.n`,

    /**
     * Stores one message ($1 to $10) once in `outbox` if it has a topic, and once for each local consumer: those given ($11), and
     * with $12 those that are registered for its type. Returns a row, and stores nothing, if the message is for nobody and $13
     * is true.
     */
    appendSubscribed: `
with subscribers as materialized (
  select given.consumer collate "C" as consumer from pg_catalog.unnest($11::text[]) as given (consumer)
  union
  select s.consumer from ${schema}.subscriptions as s where $12::boolean and s.type = $5::text
), published as (
  insert into ${outbox}
  select $1::smallint, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::text, $9::text, $10::bytea
  where $3::text is not null
), stored as (
  insert into ${schema}.local_outbox (consumer, ${MESSAGE_COLUMNS})
  select s.consumer, $1::smallint, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::text, $9::text, $10::bytea
  from subscribers as s
  order by s.consumer
)
select $5::text as type
where $13::boolean and $3::text is null and not exists (select from subscribers)`,

    /**
     * Like `appendSubscribed`, for many messages. The given subscribers are pairs of a message's number ($11) and a consumer
     * ($12). $13 and $14 are the two switches, and $15 the times of scheduled messages, in milliseconds. If a message is for
     * nobody, none is stored: the switches and the topics decide before the first row is inserted.
     */
    appendSubscribedBatch: `
with messages as materialized (
  select * from ${messageArrays(', pg_catalog.unnest($15::double precision[])')} with ordinality as given (${MESSAGE_COLUMNS}, at_ms, n)
), subscribers as materialized (
  select given.n, given.consumer collate "C" as consumer
  from rows from (pg_catalog.unnest($11::bigint[]), pg_catalog.unnest($12::text[])) as given (n, consumer)
  union
  select m.n, s.consumer
  from messages as m join ${schema}.subscriptions as s on s.type = m.type
  where $13::boolean
), unrouted as materialized (
  select m.n, m.type
  from messages as m
  where $14::boolean and m.topic is null and not exists (select from subscribers as s where s.n = m.n)
), published as (
  insert into ${outbox}
  select ${MESSAGE_COLUMNS}
  from messages as m
  where m.topic is not null and m.at_ms is null and not exists (select from unrouted)
  order by m.n
), scheduled as (
  insert into ${schema}.parked (${MESSAGE_COLUMNS}, deliver_at, due_at)
  select ${MESSAGE_COLUMNS}, instant.at, instant.at
  from messages as m cross join lateral pg_catalog.to_timestamp(m.at_ms / 1000::double precision) as instant (at)
  where m.topic is not null and m.at_ms is not null and not exists (select from unrouted)
), stored as (
  insert into ${schema}.local_outbox (consumer, ${MESSAGE_COLUMNS})
  select s.consumer, ${MESSAGE_COLUMNS}
  from messages as m join subscribers as s on s.n = m.n
  where m.at_ms is null and not exists (select from unrouted)
  order by m.n, s.consumer
), stored_for_later as (
  insert into ${schema}.local_parked (consumer, ${MESSAGE_COLUMNS}, deliver_at, due_at)
  select s.consumer, ${MESSAGE_COLUMNS}, instant.at, instant.at
  from messages as m join subscribers as s on s.n = m.n
    cross join lateral pg_catalog.to_timestamp(m.at_ms / 1000::double precision) as instant (at)
  where m.at_ms is not null and not exists (select from unrouted)
)
select u.type from unrouted as u order by u.n`,

    /** Takes the locks ($1) until the transaction ends, in the order of their numbers, so that all calls lock in the same order. */
    lockKeys: `
select pg_catalog.count(pg_catalog.pg_advisory_xact_lock(number))::text as locked
from (select number from pg_catalog.unnest($1::bigint[]) as wanted (number) order by number) as in_order`,

    /** The types to which registered consumers subscribe, at most $1. */
    knownTypes: `
select distinct s.type from ${schema}.subscriptions as s order by s.type limit $1`,

    /**
     * Stores scheduled messages as parked messages until they are due ($11, in milliseconds). They are not part of the
     * order of a key.
     */
    schedule: `
insert into ${schema}.parked (${MESSAGE_COLUMNS}, deliver_at, due_at)
select ${MESSAGE_COLUMNS}, instant.at, instant.at
from ${messageArrays(', pg_catalog.unnest($11::double precision[])')} as given (${MESSAGE_COLUMNS}, at_ms)
cross join lateral pg_catalog.to_timestamp(given.at_ms / 1000::double precision) as instant (at)`,
  } as const
}
