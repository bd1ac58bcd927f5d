/*
 * PostgreSQL selects, changes and returns rows in one statement; MySQL and MariaDB find rows without locks first, and
 * lock them by place.
 */
import { EPOCH } from '../queue/queue-receive-statements.ts'

/** The columns of a parked message that an operator may read: neither the payload nor the headers. */
const COLUMNS = [
  ...['place', 'shard', 'order_key', 'created_at', 'due_at', 'dead_at', 'deliver_at'],
  ...['attempts', 'id', 'topic', 'type', 'key', 'content_type', 'correlation_id', 'error'],
] as const

/**
 * All statements on dead letters and parked messages that an operator runs. `schema` is quoted. In the table of the
 * stored queues, the topic is the name of the queue, and messages that are handled or in flight are not touched. In the
 * table of the local consumers, each message has a consumer, whose handler may have locked it.
 */
export function deadLetterStatements(schema: string, table: 'parked' | 'queue' | 'local_parked' = 'parked') {
  const parked = `${schema}.${table}`
  const isQueue = table === 'queue'
  const isLocal = table === 'local_parked'
  const named = (table: string): string =>
    [...COLUMNS, ...(isLocal ? ['consumer'] : [])].map((column) => `${table}.${column}`).join(', ')
  const ofConsumer = (row: string): string => (isLocal ? `${row}.consumer, ` : '')
  const milliseconds = (column: string): string =>
    `pg_catalog.floor(pg_catalog.date_part('epoch', ${column}) * 1000::double precision)::text`
  const message = `d.place::text as place, d.id, d.topic,${isLocal ? ' d.consumer,' : ''} d.type, d.key, d.content_type, d.correlation_id, d.error,
  d.attempts::text as attempts, ${milliseconds('d.created_at')} as created_at`
  const letter = `${message},
  ${milliseconds('d.dead_at')} as dead_at, ${milliseconds('r.redriven_at')} as redriven_at, r.redriven_by`
  const waiting = `${message}, ${milliseconds('d.due_at')} as due_at`
  const lastRedrive = `left join lateral (
  select r.redriven_at, r.redriven_by from ${schema}.redrives as r
  where r.id = d.id and ${isLocal ? 'r.consumer = d.consumer' : 'r.consumer is null'}
  order by r.redriven_at desc
  limit 1
) as r on true`
  /**
   * `$1` to `$4` are ids, topic, type and key, and `$8` is a part of the error; null means any. The page begins after the id
   * `$5` and the place `$6`. `$7` is the limit. For a stored queue, the topic is never null; for local consumers, the last
   * parameter is the consumer, or null.
   */
  const matching = `
  and ($1::text[] is null or p.id = any ($1::text[]))
  and ${isQueue ? 'p.topic = $2' : '($2::text is null or p.topic = $2)'}
  and ($3::text is null or p.type = $3)
  and ($4::text is null or p.key = $4)
  and ($8::text is null or pg_catalog.strpos(p.error, $8) > 0)${isLocal ? '\n  and ($9::text is null or p.consumer = $9)' : ''}`
  const dead = `where p.dead_at is not null${matching}
  and ($5::text is null or (p.id, p.place) > ($5, $6::bigint))
order by p.id, p.place
limit $7`
  // The result is in the order of the primary key, because there is no index on the ids of messages that are not dead.
  const parkedOnly = `p.dead_at is null and (p.deliver_at is null or p.attempts > 0)`
  const alive = isQueue ? `${parkedOnly} and p.due_at is distinct from ${EPOCH}` : parkedOnly
  const notDead = (more = ''): string => `where ${alive}${more}${matching}
  and ($5::text is null or p.place > $6::bigint)
order by p.place
limit $7`
  // Makes the first remaining message of each key due: otherwise a message behind a deleted one would wait forever.
  const discardParked = `
with chosen as materialized (
  select ${named('p')} from ${parked} as p
  ${notDead()}
  for update${isLocal ? ' skip locked' : ''}
), gone as (
  delete from ${parked} as p
  using chosen
  where p.place = chosen.place and p.dead_at is null
  returning p.place
), released as (
  update ${parked} as p
  set due_at = pg_catalog.clock_timestamp()
  where p.due_at is null and p.dead_at is null and p.place = any (array(
    select next.place
    from (select distinct ${ofConsumer('c')}c.shard, c.order_key from chosen as c where c.order_key is not null) as touched
    cross join lateral (
      select f.place from ${parked} as f
      where f.order_key is not null and ${isLocal ? 'f.consumer = touched.consumer and ' : ''}f.shard = touched.shard and f.order_key = touched.order_key
        and f.place not in (select c.place from chosen as c)
      order by ${ofConsumer('f')}f.shard, f.order_key, f.place
      limit 1
    ) as next
  ))
)
select ${waiting}
from chosen as d join gone using (place)
order by d.place`
  // Discarded messages with a key are marked as handled, because only receivers make waiting messages of a queue
  // visible.
  const discardQueued = `
with chosen as materialized (
  select ${named('p')} from ${parked} as p
  ${notDead(' and (p.receipt is null or p.due_at <= pg_catalog.clock_timestamp())')}
  for update skip locked
), handled as (
  update ${parked} as p
  set due_at = ${EPOCH}, receipt = null
  from chosen
  where p.place = chosen.place and p.order_key is not null and p.dead_at is null
  returning p.place
), gone as (
  delete from ${parked} as p
  using chosen
  where p.place = chosen.place and p.order_key is null and p.dead_at is null
  returning p.place
)
select ${waiting}
from chosen as d
where d.place in (select handled.place from handled) or d.place in (select gone.place from gone)
order by d.place`
  // $4 is the queue, or a local consumer, or null for all of these.
  const ofQueue = isQueue ? ' and p.topic = $4' : ''
  const ofId = `p.id = $1${isLocal ? ' and ($4::text is null or p.consumer = $4)' : ofQueue}`
  const readOfId = (columns: string): string => `
select ${columns}
from ${parked} as p
where ${ofId} and case when $2::boolean then ${alive} else p.dead_at is not null end
order by p.place
limit $3`
  return {
    list: `
select ${letter}
from (
  select ${named('p')} from ${parked} as p
  ${dead}
) as d
${lastRedrive}
order by d.id, d.place`,

    newest: `
select ${letter}
from (
  select ${named('p')} from ${parked} as p
  ${dead.replace('order by p.id, p.place', 'order by p.dead_at desc')}
) as d
${lastRedrive}
order by d.dead_at desc`,

    /**
     * Puts dead letters back. A concurrent caller waits, and then finds that the messages are no longer dead. The first
     * message of each key is due; the other messages of the key follow in the order of their places. Scheduled messages
     * are due independently, and are not part of the order of a key.
     */
    redrive: `
with chosen as materialized (
  select ${named('p')} from ${parked} as p
  ${dead}
  for update
), ranked as materialized (
  select c.place, case when c.deliver_at is null then c.key end as order_key,
    pg_catalog.row_number() over (partition by ${ofConsumer('c')}c.shard, c.key, c.deliver_at is null order by c.place) as n
  from chosen as c
), redriven as (
  update ${parked} as p
  set dead_at = null, redriven_at = pg_catalog.clock_timestamp(), attempts = 0,${isQueue ? ' timeouts = 0,' : ''} order_key = ranked.order_key,
    due_at = case when ranked.order_key is null or ranked.n = 1 then pg_catalog.clock_timestamp() end
  from ranked
  where p.place = ranked.place and p.dead_at is not null
  returning p.place
), recorded as (
  insert into ${schema}.redrives (place, dead_at, attempts, id, topic, key, error, redriven_by${isLocal ? ', consumer' : ''})
  select c.place, c.dead_at, c.attempts, c.id, ${isLocal ? "coalesce(c.topic, '')" : 'c.topic'}, c.key, c.error, ${isLocal ? '$10, c.consumer' : '$9'}
  from chosen as c join redriven using (place)
)
select ${letter}
from chosen as d join redriven using (place)
${lastRedrive}
order by d.id, d.place`,

    discard: `
with d as materialized (
  delete from ${parked} as gone
  where gone.place = any (array(
    select p.place from ${parked} as p
    ${dead}
    for update
  )) and gone.dead_at is not null
  returning ${named('gone')}
)
select ${letter}
from d
${lastRedrive}
order by d.id, d.place`,

    listParked: `
select ${waiting}
from (
  select ${named('p')} from ${parked} as p
  ${notDead()}
) as d
order by d.place`,

    discardParked: isQueue ? discardQueued : discardParked,

    /** Only the message that is the first of its key has a time at which it is due. */
    retry: `
with chosen as materialized (
  select ${named('p')} from ${parked} as p
  ${notDead(` and p.due_at > pg_catalog.statement_timestamp()${isQueue ? ' and p.receipt is null' : ''}`)}
  for update skip locked
), retried as (
  update ${parked} as p
  set due_at = pg_catalog.clock_timestamp()
  from chosen
  where p.place = chosen.place and p.dead_at is null
  returning p.place
)
select ${waiting}
from chosen as d join retried using (place)
order by d.place`,

    /**
     * The payloads of all messages with the id $1: of dead letters, or if $2 is true, of other parked messages. $3 is
     * the limit.
     */
    payloads: readOfId("p.content_type, p.headers, pg_catalog.encode(p.payload, 'hex') as payload"),

    /** The last errors of the messages that `payloads` selects, as JSON. */
    errors: readOfId('p.errors'),
  } as const
}
