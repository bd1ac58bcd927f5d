/* PostgreSQL has its own catalogs, which describe vacuum, sequences and collations. */
import { EXACT_CLAIMS, KEY_ENDS } from '@txbox/sql/stores'
import { EPOCH, UNKEYED_SHARD } from '../queue/queue-receive-statements.ts'
import { DUE_SINCE, parkedCounts } from './parked-count-statements.ts'

/** All statements of `txbox status` and `txbox doctor`. `schema` is quoted. Numbers are returned as text. */
export function inspectionStatements(schema: string) {
  /** Counts rows, but at most $1. */
  const count = (rows: string): string =>
    `(select pg_catalog.count(*) from (select ${rows} limit $1) as counted)::text`
  const ms = (interval: string): string =>
    `pg_catalog.floor(pg_catalog.date_part('epoch', ${interval}) * 1000::double precision)::bigint::text`
  const older = (table: string, instant: string): string =>
    `from ${schema}.${table} where ${instant} <= pg_catalog.statement_timestamp() - $2::double precision * interval '1 millisecond'`
  const expired = (table: string): string =>
    `from ${schema}.${table} where expires_at <= pg_catalog.statement_timestamp()`
  const ofQueue = `from ${schema}.queue as q where q.topic = $2::text`
  const firstQueue = (which: string, order: string): string =>
    `select q.topic from ${schema}.queue as q where q.${which} and q.topic > $1 order by q.topic, q.${order} limit 1`
  const ofKey = `from ${schema}.queue as q where q.topic = $1 and q.shard = $2 and q.order_key = $3`
  const firstOfKey = `q.topic, q.shard, q.order_key, q.id, q.due_at is null as waits`
  const lag = `${count(`from ${schema}.outbox`)} as backlog,
  (
    select ${ms('pg_catalog.clock_timestamp() - pg_catalog.min(first.created_at)')}
    from pg_catalog.generate_series(0, 15) as shards (shard)
    cross join lateral (
      select o.created_at from ${schema}.outbox as o where o.shard = shards.shard order by o.seq limit 1
    ) as first
  ) as oldest_ms`
  const dueParked = `from ${schema}.parked as m where m.dead_at is null and ${DUE_SINCE} <= pg_catalog.statement_timestamp()`
  const parked = parkedCounts(`${schema}.parked`)
  const age = ms('pg_catalog.clock_timestamp() - oldest.since')
  return {
    lag: `
select
  ${lag},
  ${count(dueParked)} as parked`,

    /** The message of the outbox that has been due the longest: of each part its oldest one. */
    oldestInOutbox: `
select oldest.part, oldest.id, oldest.topic, ${age} as age_ms
from (
  (
    select 'backlog' as part, first.id, first.topic, first.created_at as since
    from pg_catalog.generate_series(0, 15) as shards (shard)
    cross join lateral (
      select o.id, o.topic, o.created_at from ${schema}.outbox as o where o.shard = shards.shard order by o.seq limit 1
    ) as first
    order by first.created_at
    limit 1
  )
  union all
  (
    select case when m.deliver_at is null then 'parked' else 'scheduled' end, m.id, m.topic, ${DUE_SINCE}
    ${dueParked}
    order by ${DUE_SINCE}
    limit 1
  )
) as oldest
order by oldest.since
limit 1`,

    /** The message of all queues that has been due the longest. A row with the epoch has been handled. */
    oldestInQueues: `
select 'queue' as part, oldest.id, oldest.topic, ${age} as age_ms
from (
  select m.id, m.topic, ${DUE_SINCE} as since
  from ${schema}.queue as m
  where m.dead_at is null and m.due_at is distinct from ${EPOCH} and ${DUE_SINCE} <= pg_catalog.statement_timestamp()
  order by ${DUE_SINCE}
  limit 1
) as oldest`,

    figures: `
select
  ${lag},
  ${parked.columns},
  ${count(`from ${schema}.parked where dead_at is not null`)} as dead,
  ${count(expired('inbox'))} as expired,
  (
    select greatest(c.reltuples::bigint, pg_catalog.pg_stat_get_live_tuples(c.oid), 0)::text
    from pg_catalog.pg_class as c where c.oid = '${schema.replaceAll("'", "''")}.inbox'::regclass::oid
  ) as claims,
  (select pg_catalog.count(*) from (select from ${schema}.inbox limit ${EXACT_CLAIMS}) as counted)::text as counted_claims,
  pg_catalog.pg_total_relation_size('${schema.replaceAll("'", "''")}.inbox')::text as inbox_bytes
${parked.from}`,

    /** $2 is the retention of dead letters in milliseconds; null keeps them forever. */
    collectable: `
select
  ${count(['inbox', 'dedup_leases'].map(expired).join(' union all select '))} as inbox,
  ${count(['parked', 'queue', 'local_parked'].map((table) => older(table, 'dead_at')).join(' union all select '))} as dead_letters,
  ${count(`${older('redrives', 'redriven_at')} union all select ${older('removals', 'removed_at')}`)} as redrives,
  ${count(older('waiting', 'dead_at'))} as buffered_dead_letters`,

    /** Counts rows of handled messages of a queue ($1), but at most $2. */
    handled: `
select pg_catalog.count(*)::text as handled
from pg_catalog.generate_series(0, 15) as shards (shard)
cross join lateral (
  select from ${schema}.queue as q
  where q.due_at is not null and q.topic = $1 and q.shard = shards.shard::smallint and q.due_at = ${EPOCH}
  limit $2
) as counted`,

    /**
     * The first queue after $1 that has messages or dead letters; null if there is none. No single index contains all
     * of these rows, so the statement asks several.
     */
    nextQueue: `
select least(
  (${firstQueue('due_at is not null', 'shard, q.due_at, q.place')}),
  (${firstQueue('order_key is not null', 'shard, q.order_key, q.place')}),
  (${firstQueue('dead_at is not null', 'id, q.place')})
) as topic`,

    /** Whether a queue ($1) has messages or dead letters, or a receiver has made the locks of its shards ($2). */
    hasQueue: `
select (
  exists (select from ${schema}.queue as q where q.due_at is not null and q.topic = $1)
  or exists (select from ${schema}.queue as q where q.order_key is not null and q.topic = $1)
  or exists (select from ${schema}.queue as q where q.dead_at is not null and q.topic = $1)
  or exists (select from ${schema}.leases as l where l.name = any ($2::text[]))
)::text as there`,

    /** The figures of a queue ($2). Rows of handled messages are not counted. */
    queueFigures: `
select
  ${count(`${ofQueue} and q.due_at > ${EPOCH} and q.due_at <= pg_catalog.statement_timestamp()`)} as due,
  ${count(`${ofQueue} and q.due_at is null and q.order_key is not null`)} as waiting,
  ${count(`${ofQueue} and q.due_at > pg_catalog.statement_timestamp() and q.receipt is null`)} as later,
  ${count(`${ofQueue} and q.due_at > pg_catalog.statement_timestamp() and q.receipt is not null`)} as in_flight,
  ${count(`${ofQueue} and q.dead_at is not null`)} as dead,
  (
    select ${ms('pg_catalog.statement_timestamp() - pg_catalog.min(first.due_at)')}
    from pg_catalog.generate_series(0, ${UNKEYED_SHARD}) as shards (shard)
    cross join lateral (
      select q.due_at from ${schema}.queue as q
      where q.due_at is not null and q.topic = $2::text and q.shard = shards.shard::smallint and q.due_at > ${EPOCH}
      order by q.due_at, q.place
      limit 1
    ) as first
    where first.due_at <= pg_catalog.statement_timestamp()
  ) as oldest_ms`,

    /**
     * The first message of each key of the stored queues, among the first $1 keys, and whether it waits. Waiting
     * messages come first; $2 is the limit. The scan jumps from key to key, so that its cost does not depend on the
     * number of messages of a key.
     */
    firstOfKeys: `
with recursive keys as (
  (
    select ${firstOfKey}, 1 as n
    from ${schema}.queue as q
    where q.order_key is not null
    order by q.topic, q.shard, q.order_key, q.place
    limit 1
  )
  union all
  select next.topic, next.shard, next.order_key, next.id, next.waits, keys.n + 1
  from keys
  cross join lateral (
    select ${firstOfKey}
    from ${schema}.queue as q
    where q.order_key is not null and (q.topic, q.shard, q.order_key) > (keys.topic, keys.shard, keys.order_key)
    order by q.topic, q.shard, q.order_key, q.place
    limit 1
  ) as next
  where keys.n < $1::integer
)
select pg_catalog.count(*) over ()::text as examined, keys.topic, keys.shard::text as shard, keys.order_key, keys.id,
  keys.waits::text as waits
from keys
order by keys.waits desc, keys.n
limit $2`,

    /**
     * Whether a key ($3) of a shard ($2) of a queue ($1) has a message that does not wait, near the first or the last
     * message of the key.
     */
    keyEnds: `
select (select pg_catalog.count(*) from (select ${ofKey} limit ${KEY_ENDS}) as counted)::text as waiting,
  (exists (
    select from (select q.due_at ${ofKey} order by q.topic, q.shard, q.order_key, q.place limit ${KEY_ENDS}) as first
    where first.due_at is not null
  ) or exists (
    select from (
      select q.due_at ${ofKey} order by q.topic desc, q.shard desc, q.order_key desc, q.place desc limit ${KEY_ENDS}
    ) as last
    where last.due_at is not null
  ))::text as goes_on`,

    leases: `
select name, owner, term::text as term, ${ms('expires_at - pg_catalog.clock_timestamp()')} as remaining_ms
from ${schema}.leases
where owner is not null
  -- A relay or a consumer that has vanished leaves the row by which the others knew it. That it has gone shows by the shards it
  -- held.
  and (name not like 'relay/%' and name not like 'local-member/%' and name <> 'metrics' or expires_at > pg_catalog.clock_timestamp())
order by name`,

    lastCollection: `
select ${ms("finished_at - timestamptz 'epoch'")} as finished_at, inbox::text as inbox,
  dead_letters::text as dead_letters, duration_ms::text as duration_ms
from ${schema}.collections
where finished_at is not null`,

    /**
     * The first message of each blocked key, among a limited number of parked messages, so that the query is never
     * expensive.
     */
    blockingKeys: `
select head.order_key as key, head.topic, head.id, head.attempts::text as attempts, head.error, held.waiting::text as waiting
from (
  select order_key, pg_catalog.min(place) as place, pg_catalog.count(*) - 1 as waiting
  from (select order_key, place from ${schema}.parked where order_key is not null limit 100000) as held_up
  group by order_key
  order by pg_catalog.count(*) desc, order_key
  limit $1
) as held
join ${schema}.parked as head on head.place = held.place
order by held.waiting desc, head.order_key`,

    /** Counts the keys among a limited number of parked messages ($1). */
    blockedKeys: `
select pg_catalog.count(*)::text as blocked, coalesce(pg_catalog.sum(held.messages), 0)::text as messages
from (
  select pg_catalog.count(*) as messages
  from (select shard, order_key from ${schema}.parked where order_key is not null limit $1) as held_up
  group by shard, order_key
) as held`,

    settings: `
select pg_catalog.current_setting('server_version') as version, pg_catalog.current_setting('server_version_num') as version_number,
  pg_catalog.current_setting('default_transaction_isolation') as isolation, pg_catalog.current_setting('autovacuum') as autovacuum,
  pg_catalog.current_setting('fsync') as fsync, pg_catalog.current_setting('synchronous_commit') as synchronous_commit,
  pg_catalog.current_setting('max_prepared_transactions') as prepared, pg_catalog.pg_is_in_recovery()::text as replica`,

    indexes: `
select c.relname::text as name, i.indisvalid::text as valid
from pg_catalog.pg_index as i
join pg_catalog.pg_class as c on c.oid = i.indexrelid
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where n.nspname = $1`,

    /** Columns that must be compared byte for byte. */
    collations: `
select a.attrelid::regclass::text || '.' || a.attname::text as name, l.collname::text as collation
from pg_catalog.pg_attribute as a
join pg_catalog.pg_class as c on c.oid = a.attrelid
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
join pg_catalog.pg_collation as l on l.oid = a.attcollation
where n.nspname = $1 and (c.relname, a.attname) in (
    ('inbox', 'consumer'), ('inbox', 'key'), ('dedup_leases', 'consumer'), ('dedup_leases', 'key'), ('leases', 'name'), ('parked', 'order_key'), ('queue', 'topic'), ('queue', 'order_key'),
    ('local_outbox', 'consumer'), ('local_parked', 'consumer'), ('local_parked', 'order_key'), ('subscriptions', 'type'),
    ('subscriptions', 'consumer')
  )
  and l.collname <> 'C'`,

    /**
     * Conditions that would break the order of messages: a sequence with a cache, or a trigger that makes an INSERT
     * draw its number before it waits.
     */
    order: `
select 'sequence ' || s.sequencename::text || ' has cache ' || s.cache_size::text as found
from pg_catalog.pg_sequences as s
where s.schemaname = $1 and s.sequencename in ('outbox_seq', 'queue_place', 'local_outbox_seq') and s.cache_size <> 1
union all
select 'trigger ' || t.tgname::text || ' of ' || c.relname::text
from pg_catalog.pg_trigger as t
join pg_catalog.pg_class as c on c.oid = t.tgrelid
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where n.nspname = $1 and c.relname in ('outbox', 'queue', 'local_outbox') and not t.tgisinternal`,

    /** Transactions and replication slots that keep vacuum from removing deleted rows, the oldest first. */
    horizon: `
select 'connection ' || pid::text || coalesce(' of ' || usename::text, '') || coalesce(' (' || nullif(application_name, '') || ')', '')
    || ', ' || coalesce(state, 'state hidden') as who,
  ${ms('pg_catalog.clock_timestamp() - coalesce(xact_start, state_change)')} as age_ms
from pg_catalog.pg_stat_activity
where (backend_xmin is not null or backend_xid is not null) and pid <> pg_catalog.pg_backend_pid()
  and backend_type = 'client backend' and pg_catalog.clock_timestamp() - coalesce(xact_start, state_change) > $1::double precision * interval '1 millisecond'
union all
select 'prepared transaction ' || gid, ${ms('pg_catalog.clock_timestamp() - prepared')}
from pg_catalog.pg_prepared_xacts
union all
select 'replication slot ' || slot_name::text || case when active then '' else ', which nobody reads' end, null
from pg_catalog.pg_replication_slots
where xmin is not null and not active
order by age_ms desc nulls last
limit 5`,

    bloat: `
select relname::text as name, n_dead_tup::text as dead, n_live_tup::text as live
from pg_catalog.pg_stat_user_tables
where schemaname = $1 and n_dead_tup > 100000 and n_dead_tup > n_live_tup`,
  } as const
}
