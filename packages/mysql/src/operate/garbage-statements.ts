/*
 * MySQL and MariaDB find rows without locks, lock them by key, and remove them, in three statements; PostgreSQL needs
 * one.
 */
import type { Tables } from '../connection/identifiers.ts'
import { EPOCH } from '../queue/queue-receive-statements.ts'
import type { ServerTraits } from '../connection/server.ts'

/**
 * All statements of the garbage collector. `?` is replaced by a value as a literal. Rows are found without locks, then
 * locked by their primary keys, and then deleted, because DELETE has no SKIP LOCKED, and a search that locks also locks
 * the row after the last matching one.
 */
export function garbageStatements(
  { inbox, dedupLeases, parked, queue, localParked, redrives, removals, waiting, collections }: Tables,
  engine: ServerTraits['engine'],
) {
  /** MySQL refuses to lock the rows of JSON_TABLE; MariaDB has no OF. */
  const locking = (table: string): string =>
    engine === 'mysql' ? `for update of ${table} skip locked` : 'for update skip locked'
  const from = "'1970-01-01' + interval ? microsecond"
  const claims = (name: string, table: string): string => `json_table(?, '$[*]' columns (
  consumer varchar(800) character set ascii path '$[0]', hexadecimal varchar(1024) character set ascii path '$[1]'
)) as ${name}
straight_join ${table} as i force index (primary)
  on i.consumer = unhex(${name}.consumer) and i.\`key\` = unhex(${name}.hexadecimal)`
  const findClaims = (table: string, index: string): string => `
select hex(consumer) as consumer, hex(\`key\`) as \`key\`,
  cast(timestampdiff(microsecond, '1970-01-01', expires_at) as char) as instant
from ${table} force index (${index})
where expires_at <= utc_timestamp(6) and expires_at >= ${from}
order by expires_at
limit ?`
  const lockClaims = (table: string): string => `
select hex(i.consumer) as consumer, hex(i.\`key\`) as \`key\`
from ${claims('found', table)}
where i.expires_at <= utc_timestamp(6)
${locking('i')}`
  const removeClaims = (table: string): string => `
delete i
from ${claims('locked', table)}`
  const letters = (
    name: string,
    table: string,
  ): string => `json_table(?, '$[*]' columns (place bigint unsigned path '$')) as ${name}
straight_join ${table} as p force index (primary) on p.place = ${name}.place`
  const records = (name: string): string => `json_table(?, '$[*]' columns (
  id varchar(2040) character set ascii path '$[0]', instant varchar(26) character set ascii path '$[1]',
  place bigint unsigned path '$[2]'
)) as ${name}
straight_join ${redrives} as r force index (primary)
  on r.id = unhex(${name}.id) and r.redriven_at = cast(${name}.instant as datetime(6)) and r.place = ${name}.place`
  const ended = (
    name: string,
  ): string => `json_table(?, '$[*]' columns (number bigint unsigned path '$')) as ${name}
straight_join ${removals} as r force index (primary) on r.number = ${name}.number`
  const buffered = (name: string): string => `json_table(?, '$[*]' columns (
  consumer varchar(800) character set ascii path '$[0]', hexadecimal varchar(2040) character set ascii path '$[1]',
  version bigint path '$[2]'
)) as ${name}
straight_join ${waiting} as w force index (primary)
  on w.consumer = unhex(${name}.consumer) and w.\`key\` = unhex(${name}.hexadecimal) and w.from_version = ${name}.version`
  const findLetters = (table: string, index: string): string => `
select cast(place as char) as place, cast(timestampdiff(microsecond, '1970-01-01', dead_at) as char) as instant
from ${table} force index (${index})
where dead_at <= utc_timestamp(6) - interval ? microsecond and dead_at >= ${from}
order by dead_at
limit ?`
  const lockLetters = (table: string): string => `
select cast(p.place as char) as place
from ${letters('found', table)}
where p.dead_at <= utc_timestamp(6) - interval ? microsecond
${locking('p')}`
  const removeLetters = (table: string): string => `
delete p
from ${letters('locked', table)}`
  return {
    /**
     * Finds expired claims by a plain read, which locks nothing. The values are the instant from which to search, in
     * microseconds, and the limit.
     */
    findExpiredClaims: findClaims(inbox, 'inbox_expires_at'),

    /**
     * Locks those of the found rows that are not locked by another transaction and are still expired. Each row is
     * looked up by its whole key.
     */
    lockExpiredClaims: lockClaims(inbox),

    removeExpiredClaims: removeClaims(inbox),

    findExpiredLeases: findClaims(dedupLeases, 'dedup_leases_expires_at'),

    lockExpiredLeases: lockClaims(dedupLeases),

    removeExpiredLeases: removeClaims(dedupLeases),

    /**
     * Finds dead letters of the outbox; other parked messages stay. The first value is the retention, in microseconds.
     */
    findDeadLetters: findLetters(parked, 'parked_dead'),

    /** Locks dead letters that have not been redriven and died again in between. The second value is the retention. */
    lockDeadLetters: lockLetters(parked),

    removeDeadLetters: removeLetters(parked),

    findQueueDeadLetters: findLetters(queue, 'queue_dead'),

    lockQueueDeadLetters: lockLetters(queue),

    removeQueueDeadLetters: removeLetters(queue),

    findLocalDeadLetters: findLetters(localParked, 'local_parked_dead'),

    lockLocalDeadLetters: lockLetters(localParked),

    removeLocalDeadLetters: removeLetters(localParked),

    /** The first queue after a name that has messages. */
    nextQueue: `
select hex(q.topic) as topic
from ${queue} as q force index (queue_due)
where q.topic > ?
order by q.topic
limit 1`,

    /** The first of the given shards of a queue that has the row of a handled message. */
    handledShard: `
select cast(q.shard as char) as shard
from ${queue} as q force index (queue_due)
where q.topic = ? and q.shard in (?) and q.due_at = ${EPOCH}
order by q.shard
limit 1`,

    /** The first value is the retention, in microseconds. */
    findRedrives: `
select hex(id) as id, cast(redriven_at as char) as at, cast(place as char) as place,
  cast(timestampdiff(microsecond, '1970-01-01', redriven_at) as char) as instant
from ${redrives} force index (redrives_redriven_at)
where redriven_at <= utc_timestamp(6) - interval ? microsecond and redriven_at >= ${from}
order by redriven_at
limit ?`,

    lockRedrives: `
select hex(r.id) as id, cast(r.redriven_at as char) as at, cast(r.place as char) as place
from ${records('found')}
${locking('r')}`,

    removeRedrives: `
delete r
from ${records('locked')}`,

    /** Finds records of ended subscriptions. The first value is the retention, in microseconds. */
    findRemovals: `
select cast(number as char) as number, cast(timestampdiff(microsecond, '1970-01-01', removed_at) as char) as instant
from ${removals} force index (removals_removed_at)
where removed_at <= utc_timestamp(6) - interval ? microsecond and removed_at >= ${from}
order by removed_at
limit ?`,

    lockRemovals: `
select cast(r.number as char) as number
from ${ended('found')}
${locking('r')}`,

    removeRemovals: `
delete r
from ${ended('locked')}`,

    /**
     * Finds dead letters of version buffers; waiting messages stay. The first value is the retention, in microseconds.
     */
    findBufferedDeadLetters: `
select hex(consumer) as consumer, hex(\`key\`) as \`key\`, cast(from_version as char) as from_version,
  cast(timestampdiff(microsecond, '1970-01-01', dead_at) as char) as instant
from ${waiting} force index (waiting_dead_at)
where dead_at <= utc_timestamp(6) - interval ? microsecond and dead_at >= ${from}
order by dead_at
limit ?`,

    /** Locks dead letters that have not been redriven and died again in between. The second value is the retention. */
    lockBufferedDeadLetters: `
select hex(w.consumer) as consumer, hex(w.\`key\`) as \`key\`, cast(w.from_version as char) as from_version
from ${buffered('found')}
where w.dead_at <= utc_timestamp(6) - interval ? microsecond
${locking('w')}`,

    removeBufferedDeadLetters: `
delete w
from ${buffered('locked')}`,

    /** Locks the record of the figures. Finds no row if another collector is writing the record. */
    findRecord: `
select cast(id as char) as id
from ${collections}
where id = 1
for update skip locked`,

    record: `
update ${collections}
set finished_at = utc_timestamp(6), inbox = ?, dead_letters = ?, duration_ms = ?
where id = 1`,
  } as const
}
