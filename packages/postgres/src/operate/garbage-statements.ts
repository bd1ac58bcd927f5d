/*
 * PostgreSQL finds, locks and removes rows in one statement, by their addresses; MySQL and MariaDB need three
 * statements, by keys.
 */
import { EPOCH, firstEntryOfShard } from '../queue/queue-receive-statements.ts'

/**
 * All statements of the garbage collector. `schema` is quoted. $1 is the limit, and $2 the instant from which to
 * search, in microseconds since 1970, unless a statement says otherwise.
 *
 * Rows are deleted by ctid: the search has locked the rows, so their addresses cannot change, and no second search by
 * key is needed. The statements use statement_timestamp(), because an index cannot serve a comparison with
 * clock_timestamp().
 */
export function garbageStatements(schema: string) {
  const queue = `${schema}.queue`
  const from = "timestamptz 'epoch' + $2::bigint::double precision * interval '1 microsecond'"
  /** Returns the instant of the last row, from which the next batch continues. */
  const summary = (instant: string): string => `
select pg_catalog.count(*)::text as removed, (extract(epoch from pg_catalog.max(${instant})) * 1000000::numeric)::bigint::text as next
from removed`
  /**
   * Removes the oldest rows. Skips locked rows, so that the statement never waits. `still` repeats conditions that may
   * have changed since the row was found.
   */
  const removeOldest = (table: string, instant: string, age = '', still = ''): string => `
with removed as (
  delete from ${schema}.${table}
  where ctid = any (array(
    select ctid
    from ${schema}.${table}
    where ${instant} <= pg_catalog.statement_timestamp()${age} and ${instant} >= ${from}
    order by ${instant}
    limit $1
    for update skip locked
  ))${still}
  returning ${instant}
)${summary(instant)}`
  const dead = ' and dead_at is not null'
  const retention = " - $3::double precision * interval '1 millisecond'"
  return {
    removeExpiredClaims: removeOldest('inbox', 'expires_at'),

    /** Removes claims of dedup stores. */
    removeExpiredLeases: removeOldest('dedup_leases', 'expires_at'),

    /** Removes dead letters of the outbox; other parked messages stay. $3 is the retention in milliseconds. */
    removeDeadLetters: removeOldest('parked', 'dead_at', retention, dead),

    removeQueueDeadLetters: removeOldest('queue', 'dead_at', retention, dead),

    removeLocalDeadLetters: removeOldest('local_parked', 'dead_at', retention, dead),

    /** The first queue after $1 that has messages. */
    nextQueue: `
select q.topic from ${queue} as q
where q.due_at is not null and q.topic > $1
order by q.topic, q.shard, q.due_at, q.place
limit 1`,

    /**
     * The first of the shards $2 of the queue $1 that has the row of a handled message. Reads one index entry for each
     * shard.
     */
    handledShard: `
select asked.shard::text as shard
from pg_catalog.unnest($2::smallint[]) as asked (shard)
${firstEntryOfShard(queue)}
where next.due_at = ${EPOCH}
order by asked.shard
limit 1`,

    /** $3 is the retention in milliseconds. */
    removeRedrives: removeOldest('redrives', 'redriven_at', retention),

    /** Removes records of ended subscriptions. $3 is the retention in milliseconds. */
    removeRemovals: removeOldest('removals', 'removed_at', retention),

    /** Removes dead letters of version buffers; waiting messages stay. $3 is the retention in milliseconds. */
    removeBufferedDeadLetters: removeOldest('waiting', 'dead_at', retention, dead),

    /** Records the figures of a run. Does nothing if another collector is writing the record. */
    record: `
update ${schema}.collections
set finished_at = pg_catalog.clock_timestamp(), inbox = $1::bigint, dead_letters = $2::bigint, duration_ms = $3::bigint
where id = (select id from ${schema}.collections where id = 1 for update skip locked)`,
  } as const
}
