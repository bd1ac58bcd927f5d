import { textIn } from '../check/queue-history.ts'
import { txboxTables } from '../database/chaos-tables.ts'
import type { Engine } from '../database/engine.ts'
import type { Sql, SqlRow } from '../database/sql.ts'
import { LOCAL_CONSUMERS } from '../workers/worker-protocol.ts'

/** How the names of the heads of local consumers begin. */
export const LOCAL_KINDS: readonly string[] = LOCAL_CONSUMERS.flatMap((consumer) => [
  `${consumer} waiting`,
  `${consumer} parked`,
])

/**
 * The next messages of each shard of the local consumers: the first waiting message, and all parked messages that are due. Messages
 * that were made to fail do not count. While a message waits that kills its process, none counts: the process holds the shards of
 * both consumers, and each death costs a lease, until the message is tried alone and given up.
 */
export async function localHeads(engine: Engine, sql: Sql): Promise<readonly SqlRow[]> {
  const { localOutbox, localParked } = txboxTables(engine)
  const clock = engine === 'postgres' ? 'clock_timestamp()' : 'utc_timestamp(6)'
  const [consumer, id] = [textIn(engine, 'm.consumer'), textIn(engine, 'm.id')]
  const isWell = `not exists (select 1 from chaos_local as c where c.message_id = ${id} and c.ill is not null)`
  const kills = (table: string): string => `select 1 from ${table} as m
    join chaos_local as c on c.message_id = ${id}
    where c.ill = 'kill'`
  const rows = await sql.query(
    `select m.shard, concat(${consumer}, ' waiting ', min(m.seq)) as what from ${localOutbox} as m
     where ${isWell} group by m.shard, m.consumer
     union all
     select m.shard, concat(${consumer}, ' parked ', m.place, ' attempts ', m.attempts) from ${localParked} as m
     where m.due_at <= ${clock} and m.dead_at is null and ${isWell}`,
  )
  if (rows.length === 0) return rows
  const killing = await sql.query(
    `${kills(localOutbox)} union all ${kills(localParked)} and m.dead_at is null`,
  )
  return killing.length > 0 ? [] : rows
}
