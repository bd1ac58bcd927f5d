/* PostgreSQL finds, locks and removes in one statement, by the addresses of rows; MySQL and MariaDB need three, by keys. */
import { EPOCH, firstEntryOfShard } from './queue-receive-statements.ts'

/**
 * Every statement of the garbage collector. `schema` is quoted. $1 is the limit, $2 the instant from which to search,
 * as microseconds of the Unix time.
 *
 * Rows are deleted by ctid, because the rows that the search found are locked, so that their addresses do not change
 * and no second search by key is needed. The statements use statement_timestamp(), because an index cannot serve a
 * comparison with clock_timestamp().
 */
export function garbageStatements(schema: string) {
  const queue = `${schema}.queue`
  const from = "timestamptz 'epoch' + $2::bigint::double precision * interval '1 microsecond'"
  /** The last row's instant, from which the next batch continues. */
  const summary = (instant: string): string => `
select pg_catalog.count(*)::text as removed, (extract(epoch from pg_catalog.max(${instant})) * 1000000::numeric)::bigint::text as next
from removed`
  /**
   * Skips locked rows, so that it never waits. `still` repeats conditions that may have changed since the row was
   * found.
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

    /** Removes dead letters, and no other parked messages. $3 is the retention in milliseconds. */
    removeDeadLetters: removeOldest('parked', 'dead_at', retention, dead),

    /** The same for stored queues. */
    removeQueueDeadLetters: removeOldest('queue', 'dead_at', retention, dead),

    /** The first queue after $1 that has messages. */
    nextQueue: `
select q.topic from ${queue} as q
where q.due_at is not null and q.topic > $1
order by q.topic, q.shard, q.due_at, q.place
limit 1`,

    /**
     * The first shard of the queue $1 among $2 that has a row of a handled message. Looks at one entry of the index for each
     * shard.
     */
    handledShard: `
select asked.shard::text as shard
from pg_catalog.unnest($2::smallint[]) as asked (shard)
${firstEntryOfShard(queue)}
where next.topic = $1 and next.shard = asked.shard and next.due_at = ${EPOCH}
order by asked.shard
limit 1`,

    /** Removes records of redrives. $3 is the retention in milliseconds. */
    removeRedrives: removeOldest('redrives', 'redriven_at', retention),

    /** Removes dead letters of version buffers, and no waiting messages. $3 is the retention in milliseconds. */
    removeBufferedDeadLetters: removeOldest('waiting', 'dead_at', retention, dead),

    /** Skips the record if another collector is writing it. */
    record: `
update ${schema}.collections
set finished_at = pg_catalog.clock_timestamp(), inbox = $1::bigint, dead_letters = $2::bigint, duration_ms = $3::bigint
where id = (select id from ${schema}.collections where id = 1 for update skip locked)`,
  } as const
}
