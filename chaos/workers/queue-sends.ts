// What a producer sends to the queue, in the transactions of its other changes.
import { randomUUID } from 'node:crypto'
import { QUEUE_KEYS, epochExpression } from '../database/chaos-tables.ts'
import type { ProducerTransaction } from './database-pool.ts'
import { steadyNow, type Worker } from './worker.ts'
import type { Change, Illness } from './worker-protocol.ts'

/** Keys of which several messages wait most of the time; the others have none most of the time. */
const BUSY_KEYS = QUEUE_KEYS.slice(0, 3)

/** Locks the aggregate first, sends after it: then the messages of a key have the order of the commits. */
export async function sendOfKey(worker: Worker, tx: ProducerTransaction): Promise<void> {
  const { draw, config, name: producer } = worker
  const name = draw.pick(draw.chance(0.4) ? BUSY_KEYS : QUEUE_KEYS)
  const [row] = await tx.query(
    `select epoch, n, ${epochExpression(config.engine)} as here from chaos_aggregates where name = ? for update`,
    [name],
  )
  const epoch = String(row?.['here'])
  const n = row?.['epoch'] === epoch ? Number(row['n']) : 0
  const count = draw.chance(0.2) ? draw.integer(2, 5) : 1
  await tx.query('update chaos_aggregates set epoch = ?, n = ? where name = ?', [epoch, n + count, name])
  const messages = Array.from({ length: count }, (_, index) => {
    const ill = illnessOf(worker)
    const payload: Change = {
      to: n + index + 1,
      ...(ill !== undefined && { ill }),
      padding: 'x'.repeat(draw.integer(0, 200)),
    }
    return { id: randomUUID(), key: name, payload }
  })
  for (const { id, payload } of messages) {
    await tx.query(
      'insert into chaos_queued (message_id, name, epoch, place, ill, producer) values (?, ?, ?, ?, ?, ?)',
      [id, name, epoch, payload.to ?? null, payload.ill ?? null, producer],
    )
  }
  await tx.send(count === 1 && draw.chance(0.5) ? messages[0]! : messages)
}

/** More often than in the outbox, since the queue has fewer messages. Some become dead letters. */
function illnessOf({ draw, mode: { ill } }: Worker): Illness | undefined {
  if (ill === undefined || !draw.chance(0.3)) return undefined
  return ill === 'throw' && draw.chance(0.5) ? 'fail' : ill
}

/**
 * Sends without a lock: the messages of such a key have no order, but only one of them is handled at a time.
 *
 * @param workMs how long the handler takes at least.
 */
export async function sendOfUnlockedKey(
  worker: Worker,
  tx: ProducerTransaction,
  key: string,
  workMs: number,
): Promise<void> {
  const id = randomUUID()
  const ill = illnessOf(worker)
  await tx.query(
    `insert into chaos_queued (message_id, name, epoch, ill, producer) values (?, ?, '', ?, ?)`,
    [id, key, ill ?? null, worker.name],
  )
  await tx.send({ id, key, payload: { ...(ill !== undefined && { ill }), workMs, padding: '' } })
}

/** A message without a key, which may be scheduled. */
export async function sendUnordered(worker: Worker, tx: ProducerTransaction): Promise<void> {
  const { draw, name: producer } = worker
  const id = randomUUID()
  const deliverAtMs = draw.chance(0.5) ? Math.round(steadyNow()) + draw.integer(200, 4000) : undefined
  await tx.query(
    `insert into chaos_queued (message_id, epoch, deliver_at_ms, producer) values (?, '', ?, ?)`,
    [id, deliverAtMs ?? null, producer],
  )
  await tx.send({
    id,
    payload: { padding: '' },
    ...(deliverAtMs !== undefined && { deliverAt: new Date(deliverAtMs) }),
  })
}

/** Sends a request that other producers send too: one message is stored for all sends. */
export async function sendQueueRequest(worker: Worker, tx: ProducerTransaction): Promise<void> {
  const request = `queue-request-${Math.floor(steadyNow() / 1000)}-${worker.draw.integer(0, 1)}`
  const newId = randomUUID()
  const { id, duplicate } = await tx.sendOnce({
    id: newId,
    payload: { padding: '' },
    deduplicationId: request,
  })
  await tx.query('insert into chaos_sends (request, message_id, new_id) values (?, ?, ?)', [
    request,
    id,
    newId,
  ])
  worker.count(duplicate ? 'duplicate sends' : 'first sends')
  if (duplicate) return
  await tx.query(`insert into chaos_queued (message_id, epoch, producer) values (?, '', ?)`, [
    id,
    worker.name,
  ])
}
