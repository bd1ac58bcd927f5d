/*
 * MySQL and MariaDB find rows without locks, lock them by primary key, and remove them, in three statements; PostgreSQL
 * needs one.
 */
import type { Tables } from '../connection/identifiers.ts'
import { EPOCH } from './queue-receive-statements.ts'
import type { ServerTraits } from '../connection/server.ts'

/** The statements of a purge that a receive does not have. `?` is replaced by a value as a literal. */
export function queuePurgeStatements({ queue, inbox }: Tables, engine: ServerTraits['engine']) {
  /** MySQL refuses to lock the rows of JSON_TABLE; MariaDB has no OF. */
  const forUpdate = engine === 'mysql' ? 'for update of i' : 'for update'
  const ids = `json_table(?, _utf8mb4'$[*]' columns (hexadecimal varchar(1024) character set ascii path _utf8mb4'$')) as j
straight_join ${inbox} as i force index (primary) on i.consumer = ? and i.\`key\` = unhex(j.hexadecimal)`
  return {
    /**
     * Finds messages that are not in flight, by a plain read. The values are the queue, the places that are left out, and
     * the limit.
     */
    findIdle: `
select cast(q.place as char) as place, cast(q.shard as char) as shard
from ${queue} as q force index (queue_due)
where q.topic = ? and q.dead_at is null and (q.receipt is null or q.due_at <= utc_timestamp(6))
  and (q.due_at is null or q.due_at > ${EPOCH}) and q.place not in (?)
limit ?`,

    /** A plain read. */
    findIds: `
select hex(i.\`key\`) as \`key\`
from ${inbox} as i force index (primary)
where i.consumer = ?
limit ?`,

    /**
     * Locks deduplication ids that are to be forgotten, except those that an open transaction has locked. The values
     * are the keys in hexadecimal, and the consumer.
     */
    lockIds: `
select hex(i.\`key\`) as \`key\`
from ${ids}
${forUpdate} skip locked`,

    forget: `
delete i
from ${ids}`,
  } as const
}
