/* MySQL and MariaDB find without a lock, lock by primary keys and remove in three statements; PostgreSQL needs one. */
import type { Tables } from './identifiers.ts'
import { EPOCH } from './queue-receive-statements.ts'
import type { ServerTraits } from './server.ts'

/** Every statement of a purge that is not one of a receive. `?` is replaced by a value as a literal. */
export function queuePurgeStatements({ queue, inbox }: Tables, engine: ServerTraits['engine']) {
  /** MySQL refuses to lock the rows of JSON_TABLE; MariaDB has no OF. */
  const forUpdate = engine === 'mysql' ? 'for update of i' : 'for update'
  const ids = `json_table(?, _utf8mb4'$[*]' columns (hexadecimal varchar(1024) character set ascii path _utf8mb4'$')) as j
straight_join ${inbox} as i force index (primary) on i.consumer = ? and i.\`key\` = unhex(j.hexadecimal)`
  return {
    /** Messages that are not in flight. A plain read. */
    findIdle: `
select cast(q.place as char) as place, cast(q.shard as char) as shard
from ${queue} as q force index (queue_due)
where q.topic = ? and q.dead_at is null and (q.receipt is null or q.due_at <= utc_timestamp(6))
  and (q.due_at is null or q.due_at > ${EPOCH})
limit ?`,

    /** The ids that senders have used. A plain read. */
    findIds: `
select hex(i.\`key\`) as \`key\`
from ${inbox} as i force index (primary)
where i.consumer = ?
limit ?`,

    /** Forgets ids: those that an open transaction holds stay. The values are the keys in hexadecimal, and the consumer. */
    lockIds: `
select hex(i.\`key\`) as \`key\`
from ${ids}
${forUpdate} skip locked`,

    forget: `
delete i
from ${ids}`,
  } as const
}

/** The same for both engines; the first use shows which engine the server runs. */
export function queuePurgeStatementsByEngine(tables: Tables) {
  return { mysql: queuePurgeStatements(tables, 'mysql'), mariadb: queuePurgeStatements(tables, 'mariadb') }
}
