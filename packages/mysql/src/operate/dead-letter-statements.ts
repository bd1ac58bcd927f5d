/*
 * MySQL and MariaDB find messages without locks, lock them by their places, and change them; each part of a filter is a
 * condition of its own. PostgreSQL selects, changes and returns rows in one statement.
 */
import type { Tables } from '../connection/identifiers.ts'
import { EPOCH } from '../queue/queue-receive-statements.ts'
import { unionAll } from '../relay/relay-statements.ts'
import type { ServerTraits } from '../connection/server.ts'

/**
 * All statements on dead letters and parked messages that an operator runs. `?` is replaced by a value as a literal.
 * Messages to change are found without locks, and then locked by their primary keys: a search that locks would wait for
 * every producer whose open transaction has scheduled a message.
 */
export function deadLetterStatements(tables: Tables, engine: ServerTraits['engine']) {
  const { parked } = tables
  return {
    ...statementsOn(tables, engine, 'parked'),
    lockParked: lockParked(parked, NOT_DEAD, forUpdate(engine)),

    /** The first remaining message of a key. Each key is a branch of `firstOfKeys`. */
    firstOfKey: `
(select cast(p.place as char) as place
from ${parked} as p force index (parked_order)
where p.shard = ? and p.order_key = ?
order by p.place
limit 1)`,

    firstOfKeys: unionAll,

    /** Makes messages due that would otherwise wait forever behind a message that was deleted. */
    release: releaseOn(parked),
  } as const
}

function releaseOn(table: string): string {
  return `
update json_table(?, '$[*]' columns (place bigint unsigned path '$')) as j
straight_join ${table} as p force index (primary) on p.place = j.place
set p.due_at = utc_timestamp(6)
where p.due_at is null and p.dead_at is null`
}

/**
 * The same statements on the table of the stored queues. There, the topic is the name of the queue, and messages that
 * are handled or in flight are not touched.
 */
export function queueDeadLetterStatements(tables: Tables, engine: ServerTraits['engine']) {
  const idle = `${NOT_HANDLED} and (d.receipt is null or d.due_at <= utc_timestamp(6))`
  return {
    ...statementsOn(tables, engine, 'queue'),

    topic: '\n  and d.topic = ?',

    /** Skips messages that an open transaction has settled. */
    lockParked: lockParked(tables.queue, idle, `${forUpdate(engine)} skip locked`),

    /**
     * Discarded messages that are part of the order of a key are marked as handled, because only receivers make waiting
     * messages of a queue visible.
     */
    handleParked: `
update json_table(?, '$[*]' columns (place bigint unsigned path '$')) as j
straight_join ${tables.queue} as p force index (primary) on p.place = j.place
set p.due_at = ${EPOCH}, p.receipt = null
where p.dead_at is null and p.order_key is not null`,
  } as const
}

/**
 * The same statements on the table of the local consumers. There, each message has a consumer, whose handler may have locked
 * it.
 */
export function localDeadLetterStatements(tables: Tables, engine: ServerTraits['engine']) {
  const { localParked } = tables
  return {
    ...statementsOn(tables, engine, 'localParked'),

    consumer: '\n  and d.consumer = ?',

    /** Skips messages that a handler has in flight. */
    lockParked: lockParked(localParked, NOT_DEAD, `${forUpdate(engine)} skip locked`, LOCAL),

    /** The first remaining message of a key. Each key is a branch of `firstOfKeys`. */
    firstOfKey: `
(select cast(p.place as char) as place
from ${localParked} as p force index (local_parked_order)
where p.consumer = ? and p.shard = ? and p.order_key = ?
order by p.place
limit 1)`,

    firstOfKeys: unionAll,

    /** Makes messages due that would otherwise wait forever behind a message that was deleted. */
    release: releaseOn(localParked),
  } as const
}

const NOT_DEAD = 'd.dead_at is null and (d.deliver_at is null or d.attempts > 0)'
const NOT_HANDLED = `${NOT_DEAD} and (d.due_at is null or d.due_at > ${EPOCH})`

function forUpdate(engine: ServerTraits['engine']): string {
  return engine === 'mysql' ? 'for update of d' : 'for update'
}

const MESSAGE = `cast(d.place as char) as place, cast(d.shard as char) as shard, cast(d.deliver_at is not null as char) as scheduled,
  ${['id', 'topic', 'type', 'key', 'content_type', 'correlation_id', 'error'].map(binary).join(', ')},
  cast(d.attempts as char) as attempts, ${microseconds('d.created_at')} as created_at`
const WAITING = `d.order_key as order_key, ${microseconds('d.due_at')} as due_at`
/** The columns that only the table of the local consumers has. */
const LOCAL = ', cast(d.consumer as binary) as consumer'

function binary(column: string): string {
  return `cast(d.\`${column}\` as binary) as \`${column}\``
}

function microseconds(column: string): string {
  return `cast(timestampdiff(microsecond, '1970-01-01', ${column}) as char)`
}

function lockParked(table: string, condition: string, lock: string, more = ''): string {
  return `
select ${MESSAGE}${more}, ${WAITING}
from json_table(?, '$[*]' columns (place bigint unsigned path '$')) as j
straight_join ${table} as d force index (primary) on d.place = j.place
where ${condition}
order by d.place
${lock}`
}

/** The statements that all tables share. */
function statementsOn(
  tables: Tables,
  engine: ServerTraits['engine'],
  table: 'parked' | 'queue' | 'localParked',
) {
  const { [table]: parked, redrives } = tables
  const isQueue = table === 'queue'
  const isLocal = table === 'localParked'
  const more = isLocal ? LOCAL : ''
  const last = (column: string): string => `(
    select ${column} from ${redrives} as r
    where r.id = d.id and r.consumer ${isLocal ? '= d.consumer' : 'is null'} order by r.redriven_at desc limit 1
  )`
  const columns = `${MESSAGE}${more}, ${microseconds('d.dead_at')} as dead_at,
  ${microseconds(last('r.redriven_at'))} as redriven_at,
  ${last('cast(r.redriven_by as binary)')} as redriven_by`
  const notDead = isQueue ? NOT_HANDLED : NOT_DEAD
  const waits = `${notDead} and d.due_at > utc_timestamp(6)${isQueue ? ' and d.receipt is null' : ''}`
  const ofQueue = isQueue ? ' and d.topic = ?' : ''
  const ofId = `d.id = ?${isLocal ? ' and d.consumer = coalesce(?, d.consumer)' : ofQueue}`
  const readOfId = (columns: string): string => `
select ${columns}
from ${parked} as d
where ${ofId} and case when ? then ${notDead} else d.dead_at is not null end
order by d.place
limit ?`
  return {
    /** The conditions are those below, in the same order. */
    list: (conditions: readonly string[]) => `
select ${columns}
from ${parked} as d
where d.dead_at is not null${conditions.join('')}
order by d.id, d.place
limit ?`,

    newest: (conditions: readonly string[]) => `
select ${columns}
from ${parked} as d force index (${isLocal ? 'local_parked' : table}_dead)
where d.dead_at is not null${conditions.join('')}
order by d.dead_at desc
limit ?`,

    find: (conditions: readonly string[]) => `
select cast(d.place as char) as place, cast(d.id as binary) as id
from ${parked} as d
where d.dead_at is not null${conditions.join('')}
order by d.id, d.place
limit ?`,

    /**
     * Locks the messages that are still dead. Waits for concurrent callers. MySQL refuses to lock the rows of
     * JSON_TABLE; MariaDB has no OF.
     */
    lock: `
select ${columns}
from json_table(?, '$[*]' columns (place bigint unsigned path '$')) as j
straight_join ${parked} as d force index (primary) on d.place = j.place
where d.dead_at is not null
order by d.id, d.place
${forUpdate(engine)}`,

    ids: '\n  and d.id in (?)',
    topic: '\n  and cast(d.topic as binary) = ?',
    type: '\n  and cast(d.type as binary) = ?',
    key: '\n  and cast(d.`key` as binary) = ?',
    error: '\n  and locate(?, cast(d.error as binary)) > 0',
    /** The position after all messages with an id. */
    after: '\n  and d.id > ?',
    /** The position after one of several messages with the same id. */
    afterPlace: '\n  and d.id >= ? and (d.id > ? or d.place > ?)',

    /** The result is in the order of the primary key. */
    listParked: (conditions: readonly string[]) => `
select ${MESSAGE}${more}, ${WAITING}
from ${parked} as d force index (primary)
where ${notDead}${conditions.join('')}
order by d.place
limit ?`,

    findParked: (conditions: readonly string[]) => `
select cast(d.place as char) as place, cast(d.id as binary) as id
from ${parked} as d force index (primary)
where ${notDead}${conditions.join('')}
order by d.place
limit ?`,

    behind: '\n  and d.place > ?',

    findRetried: (conditions: readonly string[]) => `
select cast(d.place as char) as place, cast(d.id as binary) as id
from ${parked} as d force index (primary)
where ${waits}${conditions.join('')}
order by d.place
limit ?`,

    lockRetried: lockParked(parked, waits, `${forUpdate(engine)} skip locked`, more),

    /** Only the message that is the first of its key has a time at which it is due. */
    retry: `
update json_table(?, '$[*]' columns (place bigint unsigned path '$')) as j
straight_join ${parked} as p force index (primary) on p.place = j.place
set p.due_at = utc_timestamp(6)
where p.dead_at is null`,

    discardParked: `
delete p
from json_table(?, '$[*]' columns (place bigint unsigned path '$')) as j
straight_join ${parked} as p force index (primary) on p.place = j.place
where p.dead_at is null${isQueue ? ' and p.order_key is null' : ''}`,

    /** The payloads of all messages with one id: of dead letters, or of other parked messages. */
    payloads: readOfId(
      'cast(d.content_type as binary) as content_type, cast(d.headers as binary) as headers, d.payload as payload',
    ),

    /** The last errors of the messages that `payloads` selects, as JSON. */
    errors: readOfId('cast(d.errors as binary) as errors'),

    /** Records the redrive, before the messages are put back. */
    record: `
insert into ${redrives} (redriven_at, place, dead_at, attempts, id, topic, \`key\`, error, redriven_by${isLocal ? ', consumer' : ''})
select utc_timestamp(6), p.place, p.dead_at, p.attempts, p.id, ${isLocal ? "coalesce(p.topic, '')" : 'p.topic'}, p.\`key\`, p.error, ?${isLocal ? ', p.consumer' : ''}
from json_table(?, '$[*]' columns (place bigint unsigned path '$[0]')) as j
straight_join ${parked} as p force index (primary) on p.place = j.place`,

    /**
     * Puts dead letters back. The first message of each key is due; the other messages of the key follow in the order
     * of their places.
     */
    redrive: `
update json_table(?, '$[*]' columns (place bigint unsigned path '$[0]', first tinyint path '$[1]')) as j
straight_join ${parked} as p force index (primary) on p.place = j.place
set p.dead_at = null, p.redriven_at = utc_timestamp(6), p.attempts = 0,${isQueue ? ' p.timeouts = 0,' : ''}
  p.order_key = case when p.deliver_at is null then cast(p.\`key\` as binary) end,
  p.due_at = case when j.first then utc_timestamp(6) end
where p.dead_at is not null`,

    discard: `
delete p
from json_table(?, '$[*]' columns (place bigint unsigned path '$[0]')) as j
straight_join ${parked} as p force index (primary) on p.place = j.place
where p.dead_at is not null`,
  } as const
}
