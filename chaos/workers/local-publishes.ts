// What a producer publishes to the local consumers, in the transactions of its other changes.
import { randomUUID } from 'node:crypto'
import { LOCAL_KEYS, epochExpression } from '../database/chaos-tables.ts'
import type { Sql, SqlValue } from '../database/sql.ts'
import type { NewLocalMessage, ProducerTransaction } from './database-pool.ts'
import { steadyNow, type Worker } from './worker.ts'
import { LOCAL_TYPE, type Change, type Illness } from './worker-protocol.ts'

/** Keys of which several messages wait most of the time; the others have none most of the time. */
const BUSY_KEYS = LOCAL_KEYS.slice(0, 3)
/** A message that kills its process holds up all shards of the process, so few do. */
const KILLING = 0.03
const ILL = 0.2

/** Locks the aggregate first, publishes after it: then the messages of a key have the order of the commits. */
export async function publishEntries(worker: Worker, tx: ProducerTransaction): Promise<void> {
  const { draw, config, name: producer } = worker
  const name = draw.pick(draw.chance(0.4) ? BUSY_KEYS : LOCAL_KEYS)
  const [row] = await tx.query(
    `select epoch, n, ${epochExpression(config.engine)} as here from chaos_aggregates where name = ? for update`,
    [name],
  )
  const epoch = String(row?.['here'])
  const n = row?.['epoch'] === epoch ? Number(row['n']) : 0
  const count = draw.chance(0.2) ? draw.integer(2, 5) : 1
  await tx.query('update chaos_aggregates set epoch = ?, n = ? where name = ?', [epoch, n + count, name])
  const hasTopic = draw.chance(0.2)
  const messages = Array.from({ length: count }, (_, index): NewLocalMessage & { id: string } => {
    const ill = hasTopic ? undefined : illnessOf(worker)
    const payload: Change = {
      to: n + index + 1,
      ...(ill !== undefined && { ill }),
      padding: 'x'.repeat(draw.integer(0, 200)),
    }
    return {
      id: randomUUID(),
      type: LOCAL_TYPE,
      ...(hasTopic && { topic: 'chaos.change' }),
      key: name,
      payload,
    }
  })
  for (const { id, payload } of messages) {
    const message = { id, name, epoch, place: payload.to ?? null, ill: payload.ill ?? null, producer }
    await writeInLedger(tx, 'chaos_local', message)
    // The relay publishes it too.
    if (hasTopic) await writeInLedger(tx, 'chaos_committed', message)
  }
  const published = count === 1 && draw.chance(0.5) ? messages[0]! : messages
  await (draw.chance(0.5) ? tx.publishLocal(published) : tx.publishRegistered(published))
}

interface LedgerRow {
  readonly id: string
  readonly name?: string
  readonly epoch?: string
  readonly place?: number | null
  readonly deliverAtMs?: number | null
  readonly ill?: string | null
  readonly producer: string
}

/** Writes a message into a ledger, in the transaction that publishes the message. */
export async function writeInLedger(
  sql: Sql,
  ledger: 'chaos_local' | 'chaos_committed',
  { id, name = '', epoch = '', place = null, deliverAtMs = null, ill = null, producer }: LedgerRow,
): Promise<void> {
  const values: readonly SqlValue[] = [
    id,
    name === '' ? null : name,
    epoch,
    place,
    deliverAtMs,
    ill,
    producer,
  ]
  await sql.query(
    `insert into ${ledger} (message_id, name, epoch, place, deliver_at_ms, ill, producer) values (?, ?, ?, ?, ?, ?, ?)`,
    values,
  )
}

function illnessOf({ draw, mode: { ill } }: Worker): Illness | undefined {
  if (ill === undefined || !draw.chance(ill === 'kill' ? KILLING : ILL)) return undefined
  // Some are to become dead letters.
  return ill === 'throw' && draw.chance(0.5) ? 'fail' : ill
}

/**
 * Publishes without a lock: the messages of such a key have no order, but only one of them is handled at a time.
 *
 * @param workMs how long the handlers take at least.
 */
export async function publishUnlockedEntry(
  worker: Worker,
  tx: ProducerTransaction,
  key: string,
  workMs: number,
): Promise<void> {
  const id = randomUUID()
  const ill = illnessOf(worker)
  await writeInLedger(tx, 'chaos_local', { id, name: key, ill: ill ?? null, producer: worker.name })
  const payload: Change = { ...(ill !== undefined && { ill }), workMs, padding: '' }
  await tx.publishLocal({ id, type: LOCAL_TYPE, key, payload })
}

/** A message without a key, which may be scheduled. */
export async function publishUnorderedEntry(worker: Worker, tx: ProducerTransaction): Promise<void> {
  const { draw, name: producer } = worker
  const id = randomUUID()
  const deliverAtMs = draw.chance(0.5) ? Math.round(steadyNow()) + draw.integer(200, 4000) : undefined
  await writeInLedger(tx, 'chaos_local', { id, deliverAtMs: deliverAtMs ?? null, producer })
  await tx.publishLocal({
    id,
    type: LOCAL_TYPE,
    payload: { padding: '' },
    ...(deliverAtMs !== undefined && { deliverAt: new Date(deliverAtMs) }),
  })
}

/** Publishes a request that other producers publish too: one message is stored for each local consumer. */
export async function publishLocalRequest(worker: Worker, tx: ProducerTransaction): Promise<void> {
  const request = `local-request-${Math.floor(steadyNow() / 1000)}-${worker.draw.integer(0, 1)}`
  const newId = randomUUID()
  const { id, duplicate } = await tx.publishLocalOnce({
    id: newId,
    type: LOCAL_TYPE,
    payload: { padding: '' },
    deduplicationId: request,
  })
  await tx.query('insert into chaos_sends (request, message_id, new_id) values (?, ?, ?)', [
    request,
    id,
    newId,
  ])
  worker.count(duplicate ? 'duplicate sends' : 'first sends')
  if (!duplicate) await writeInLedger(tx, 'chaos_local', { id, producer: worker.name })
}
