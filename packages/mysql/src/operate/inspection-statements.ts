/* MySQL and MariaDB have their own catalogs, which describe engines and transactions. */
import { EXACT_CLAIMS, KEY_ENDS } from '@txbox/sql/stores'
import type { Tables } from '../connection/identifiers.ts'
import { literal } from '../connection/literals.ts'
import { EPOCH } from '../queue/queue-receive-statements.ts'
import { parkedCounts } from './parked-count-statements.ts'

/** The tables whose engines and indexes are checked. */
const OURS = [
  ...['inbox', 'outbox', 'key_locks', 'leases', 'parked', 'queue', 'collections'],
  ...['local_outbox', 'local_parked', 'subscriptions', 'dedup_leases'],
]

/**
 * All statements of `txbox status` and `txbox doctor`. `?` is replaced by a value as a literal. Numbers are returned as
 * text.
 */
export function inspectionStatements({
  prefix,
  inbox,
  dedupLeases,
  outbox,
  keyLocks,
  leases,
  parked,
  queue,
  localParked,
  redrives,
  removals,
  waiting,
  collections,
}: Tables) {
  const count = (rows: string): string =>
    `(select cast(count(*) as char) from (select 1 ${rows} limit ?) as counted)`
  const ours = (column: string): string =>
    `${column} in (${OURS.map((name) => literal(prefix + name)).join(', ')})`
  const ofQueue = `from ${queue} as q force index (queue_due) where q.topic = ?`
  const ofKey = `from ${queue} as q force index (queue_order) where q.topic = ? and q.shard = ? and q.order_key = ?`
  const firstDue = Array.from(
    { length: 16 },
    (_, shard) =>
      `(select q.due_at ${ofQueue} and q.shard = ${shard} and q.due_at > ${EPOCH} and q.due_at <= utc_timestamp(6) order by q.due_at limit 1)`,
  )
  const older = (table: string, instant: string): string =>
    `from ${table} where ${instant} <= utc_timestamp(6) - interval ? microsecond`
  const expired = (table: string): string => `from ${table} where expires_at <= utc_timestamp(6)`
  const shards = Array.from(
    { length: 16 },
    (_, shard) => `(select created_at from ${outbox} where shard = ${shard} order by seq limit 1)`,
  )
  const lag = `${count(`from ${outbox}`)} as backlog,
  (
    select cast(timestampdiff(microsecond, min(created_at), utc_timestamp(6)) div 1000 as char)
    from (${shards.join('\n      union all ')}) as first
  ) as oldest_ms`
  const oldestOfShards = Array.from(
    { length: 16 },
    (_, shard) => `(select id, topic, created_at from ${outbox} where shard = ${shard} order by seq limit 1)`,
  )
  /** Dead letters have no `due_since`. */
  const dueIn = (table: string, name: 'parked' | 'queue'): string =>
    `from ${table} as m force index (${name}_due_since) where m.due_since <= utc_timestamp(6)`
  const counted = parkedCounts(parked, 'parked_due_since')
  const oldest = `hex(oldest.id) as id, cast(oldest.topic as binary) as topic,
  cast(timestampdiff(microsecond, oldest.since, utc_timestamp(6)) div 1000 as char) as age_ms`
  return {
    lag: `
select
  ${lag},
  ${count(dueIn(parked, 'parked'))} as parked`,

    /** The message of the outbox that has been due the longest: of each part its oldest one. */
    oldestInOutbox: `
select cast(oldest.part as binary) as part, ${oldest}
from (
  (
    select 'backlog' as part, cast(first.id as binary) as id, first.topic, first.created_at as since
    from (${oldestOfShards.join('\n      union all ')}) as first
    order by first.created_at
    limit 1
  )
  union all
  (
    select if(m.deliver_at is null, 'parked', 'scheduled'), m.id, m.topic, m.due_since
    ${dueIn(parked, 'parked')}
    order by m.due_since
    limit 1
  )
) as oldest
order by oldest.since
limit 1`,

    /** The message of all queues that has been due the longest. A row with the epoch has been handled. */
    oldestInQueues: `
select 'queue' as part, ${oldest}
from (
  select m.id, m.topic, m.due_since as since
  ${dueIn(queue, 'queue')} and (m.due_at is null or m.due_at > ${EPOCH})
  order by m.due_since
  limit 1
) as oldest`,

    figures: `
select
  ${lag},
  ${counted.columns},
  ${count(`from ${parked} where dead_at is not null`)} as dead,
  ${count(expired(inbox))} as expired,
  (
    select cast(table_rows as char) from information_schema.tables
    where table_schema = database() and table_name = ${literal(`${prefix}inbox`)}
  ) as claims,
  (select cast(count(*) as char) from (select 1 from ${inbox} limit ${EXACT_CLAIMS}) as counted) as counted_claims,
  (
    select cast(data_length + index_length as char) from information_schema.tables
    where table_schema = database() and table_name = ${literal(`${prefix}inbox`)}
  ) as inbox_bytes
${counted.from}`,

    /** Counts the rows that a garbage collector would remove. A retention of null keeps dead letters forever. */
    collectable: `
select
  ${count(`${expired(inbox)} union all select 1 ${expired(dedupLeases)}`)} as inbox,
  ${count([parked, queue, localParked].map((table) => older(table, 'dead_at')).join(' union all select 1 '))} as dead_letters,
  ${count(`${older(redrives, 'redriven_at')} union all select 1 ${older(removals, 'removed_at')}`)} as redrives,
  ${count(older(waiting, 'dead_at'))} as buffered_dead_letters`,

    handled: `
select cast(count(*) as char) as handled
from (
  select 1 from ${queue} as q force index (queue_due)
  where q.topic = ? and q.shard in (${Array.from({ length: 16 }, (_, shard) => shard).join(', ')}) and q.due_at = ${EPOCH}
  limit ?
) as counted`,

    /** The first queue after a name that has messages or dead letters. */
    nextQueue: `
select hex(q.topic) as topic
from ${queue} as q force index (queue_id)
where q.topic > ?
order by q.topic
limit 1`,

    /** Whether a queue has messages or dead letters, or a receiver has made the locks of its shards. */
    hasQueue: `
select cast(
  exists (select 1 from ${queue} as q force index (queue_id) where q.topic = ?)
  or exists (select 1 from ${leases} as l where l.name in (?))
as char) as there`,

    /** Rows of handled messages are not counted. */
    queueFigures: `
select
  ${count(`${ofQueue} and q.due_at > ${EPOCH} and q.due_at <= utc_timestamp(6)`)} as due,
  ${count(`${ofQueue} and q.due_at is null and q.order_key is not null`)} as waiting,
  ${count(`${ofQueue} and q.due_at > utc_timestamp(6) and q.receipt is null`)} as later,
  ${count(`${ofQueue} and q.due_at > utc_timestamp(6) and q.receipt is not null`)} as in_flight,
  ${count(`${ofQueue} and q.dead_at is not null`)} as dead,
  (
    select cast(timestampdiff(microsecond, min(due_at), utc_timestamp(6)) div 1000 as char)
    from (${firstDue.join('\n      union all ')}) as first
  ) as oldest_ms`,

    /**
     * The first message of each key of the stored queues, among a limited number of keys, and whether it waits. Waiting
     * messages come first, up to a limit. In each shard, all messages without a key form one group.
     */
    firstOfKeys: `
select cast(count(*) over () as char) as examined, hex(k.topic) as topic, cast(k.shard as char) as shard,
  hex(k.order_key) as order_key, hex(q.id) as id, cast(q.due_at is null as char) as waits
from (
  select topic, shard, order_key, min(place) as place
  from ${queue} force index (queue_order)
  group by topic, shard, order_key
  limit ?
) as k
straight_join ${queue} as q force index (primary) on q.place = k.place
where k.order_key is not null
order by q.due_at is null desc, k.place
limit ?`,

    /**
     * Whether a key of a shard of a queue has a message that does not wait, near the first or the last message of the
     * key.
     */
    keyEnds: `
select cast((select count(*) from (select 1 ${ofKey} limit ${KEY_ENDS}) as counted) as char) as waiting,
  cast(exists (
    select 1 from (select q.due_at ${ofKey} order by q.topic, q.shard, q.order_key, q.place limit ${KEY_ENDS}) as first
    where first.due_at is not null
  ) or exists (
    select 1 from (
      select q.due_at ${ofKey} order by q.topic desc, q.shard desc, q.order_key desc, q.place desc limit ${KEY_ENDS}
    ) as last
    where last.due_at is not null
  ) as char) as goes_on`,

    leases: `
select hex(name) as name, hex(owner) as owner, cast(term as char) as term,
  cast(timestampdiff(microsecond, utc_timestamp(6), expires_at) div 1000 as char) as remaining_ms
from ${leases}
where owner is not null
  -- A relay or a consumer that has vanished leaves the row by which the others knew it. That it has gone shows by the shards it
  -- held.
  and (name not like 'relay/%' and name not like 'local-member/%' and name <> 'metrics' or expires_at > utc_timestamp(6))
order by name`,

    lastCollection: `
select cast(timestampdiff(microsecond, '1970-01-01', finished_at) div 1000 as char) as finished_at,
  cast(inbox as char) as inbox, cast(dead_letters as char) as dead_letters, cast(duration_ms as char) as duration_ms
from ${collections}
where finished_at is not null`,

    /**
     * The first message of each blocked key, among a limited number of parked messages, so that the query is never
     * expensive.
     */
    blockingKeys: `
select hex(head.order_key) as \`key\`, cast(head.topic as binary) as topic, hex(head.id) as id,
  cast(head.attempts as char) as attempts, cast(head.error as binary) as error, cast(held.waiting as char) as waiting
from (
  select order_key, min(place) as place, count(*) - 1 as waiting
  from (select order_key, place from ${parked} where order_key is not null limit 100000) as held_up
  group by order_key
  order by count(*) desc, order_key
  limit ?
) as held
join ${parked} as head on head.place = held.place
order by held.waiting desc, head.order_key`,

    /** Counts the keys among a limited number of parked messages. */
    blockedKeys: `
select cast(count(*) as char) as blocked, cast(coalesce(sum(held.messages), 0) as char) as messages
from (
  select count(*) as messages
  from (select shard, order_key from ${parked} where order_key is not null limit ?) as held_up
  group by shard, order_key
) as held`,

    version: 'select cast(version() as char) as version',

    /** Reads settings by name, because the two engines have different ones. */
    settings: `
show variables where variable_name in (
  'transaction_isolation', 'tx_isolation', 'read_only', 'innodb_flush_log_at_trx_commit', 'max_allowed_packet', 'wsrep_on',
  'group_replication_single_primary_mode'
)`,

    indexes: `
select distinct concat(table_name, '.', index_name) as name
from information_schema.statistics
where table_schema = database() and ${ours('table_name')}`,

    /**
     * Tables whose engine has no transactions, and columns that must be compared byte for byte but have no binary type.
     */
    tables: `
select concat(table_name, ' has engine ', engine) as found
from information_schema.tables
where table_schema = database() and ${ours('table_name')} and engine <> 'InnoDB'
union all
select concat(table_name, '.', column_name, ' is ', data_type)
from information_schema.columns
where table_schema = database() and data_type <> 'varbinary' and (
  table_name = ${literal(`${prefix}inbox`)} and column_name in ('consumer', 'key')
  or table_name = ${literal(`${prefix}dedup_leases`)} and column_name in ('consumer', 'key')
  or table_name = ${literal(`${prefix}leases`)} and column_name = 'name'
  or table_name = ${literal(`${prefix}queue`)} and column_name in ('topic', 'order_key')
  or table_name = ${literal(`${prefix}local_outbox`)} and column_name = 'consumer'
  or table_name = ${literal(`${prefix}local_parked`)} and column_name in ('consumer', 'order_key')
  or table_name = ${literal(`${prefix}subscriptions`)} and column_name in ('type', 'consumer')
)`,

    keyLocks: `
select cast(count(*) as char) as n
from ${keyLocks}`,

    triggers: `
select trigger_name as name, event_object_table as owner
from information_schema.triggers
where event_object_schema = database() and event_object_table in (
  ${['outbox', 'queue', 'local_outbox'].map((name) => literal(prefix + name)).join(', ')}
)`,

    /** Transactions that keep InnoDB from removing deleted rows, the oldest first. Needs the privilege PROCESS. */
    horizon: `
select cast(trx_mysql_thread_id as char) as id, cast(timestampdiff(second, trx_started, now()) as char) as age_s
from information_schema.innodb_trx
where trx_started <= now() - interval ? microsecond and trx_mysql_thread_id <> connection_id() and trx_mysql_thread_id > 0
order by trx_started
limit 5`,
  } as const
}
