// A producer: each transaction raises some aggregates, writes what it publishes into the ledger, and publishes it. Many also
// send to the queue, or publish to the local consumers.
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import {
  KEYS,
  LOCKED_KEYS,
  UNLOCKED_LOCAL_KEYS,
  UNLOCKED_QUEUE_KEYS,
  epochExpression,
} from '../database/chaos-tables.ts'
import { transactor, type ProducerTransaction } from './database-pool.ts'
import { PRODUCER_LANES, PRODUCER_POOL_SIZE } from './limits.ts'
import {
  publishEntries,
  publishLocalRequest,
  publishUnlockedEntry,
  publishUnorderedEntry,
} from './local-publishes.ts'
import { sendOfKey, sendOfUnlockedKey, sendQueueRequest, sendUnordered } from './queue-sends.ts'
import { Worker, steadyNow } from './worker.ts'
import type { Change, Illness } from './worker-protocol.ts'

const PAUSE_MS = 40

const worker = new Worker()
const { draw } = worker
const transact = transactor(worker, PRODUCER_POOL_SIZE)
const epochOf = epochExpression(worker.config.engine)

worker.ready()
await Promise.all([
  ...Array.from({ length: PRODUCER_LANES }, () => lane(oneTransaction)),
  lane(() => overtaken(UNLOCKED_QUEUE_KEYS, sendOfUnlockedKey)),
  lane(() => overtaken(UNLOCKED_LOCAL_KEYS, publishUnlockedEntry)),
])
await worker.end()

async function lane(work: () => Promise<void>): Promise<void> {
  while (!worker.ending.aborted) {
    try {
      await work()
      worker.count('transactions')
    } catch (error) {
      worker.failed(error)
      await pause(100)
    }
    await pause(draw.integer(0, PAUSE_MS * 2))
  }
}

async function oneTransaction(): Promise<void> {
  // A producer that has waited for a key's lock must see what the lock's former holder has committed.
  if (draw.chance(0.1)) return transact('read committed', (tx) => publishNumbered(tx).then(ending))
  const isolation = draw.chance(0.2) ? 'repeatable read' : 'read committed'
  await transact(isolation, draw.chance(0.1) ? request : changeAggregates)
}

async function request(tx: ProducerTransaction): Promise<'commit' | 'rollback'> {
  const kind = draw.pick(['outbox', 'queue', 'local'] as const)
  if (kind === 'outbox') await sendRequest(tx)
  else await (kind === 'queue' ? sendQueueRequest : publishLocalRequest)(worker, tx)
  return ending()
}

async function changeAggregates(tx: ProducerTransaction): Promise<'commit' | 'rollback'> {
  const { mode } = worker
  const many = draw.integer(1, mode.unordered ? 4 : 3)
  const keys = [
    ...new Set(Array.from({ length: many }, () => draw.pick(mode.unordered ? KEYS.slice(0, 4) : KEYS))),
  ]
  if (!mode.unordered) keys.sort()
  for (const key of keys) {
    await changeAggregate(tx, key)
    if (mode.unordered) await pause(draw.integer(0, 20))
  }
  if (draw.chance(0.1)) await publishScheduled(tx)
  if (draw.chance(0.5)) await sendOfKey(worker, tx)
  if (draw.chance(0.05)) await sendUnordered(worker, tx)
  if (draw.chance(0.5)) await publishEntries(worker, tx)
  if (draw.chance(0.05)) await publishUnorderedEntry(worker, tx)
  return ending()
}

/**
 * Sends two messages of a key. The first one is committed late, so that a receiver may see it only when the second one is in
 * flight, whose handler takes long.
 */
async function overtaken(keys: readonly string[], send: typeof sendOfUnlockedKey): Promise<void> {
  const key = draw.pick(keys)
  const sent = Promise.withResolvers<void>()
  const isOvertaken = Promise.withResolvers<void>()
  const late = transact('read committed', async (tx) => {
    await send(worker, tx, key, 0)
    sent.resolve()
    // With a limit, because the other transaction may wait for this one: a lock on the whole table is between them.
    await Promise.race([isOvertaken.promise, pause(1000)])
    await pause(draw.integer(0, 600))
    return ending()
  })
  await Promise.race([sent.promise, late])
  const overtaking = transact('read committed', async (tx) => {
    await send(worker, tx, key, draw.integer(0, 1200))
    return 'commit'
  }).finally(isOvertaken.resolve)
  await Promise.all([late, overtaking])
}

/** Ends a transaction: perhaps late, perhaps by a rollback. */
async function ending(): Promise<'commit' | 'rollback'> {
  const { mode } = worker
  if (mode.late) await pause(draw.integer(100, 1500))
  if (!draw.chance(mode.rollback)) return 'commit'
  worker.count('rollbacks')
  return 'rollback'
}

/** Locks the aggregate first, publishes after it: then the messages of a key have the order of the commits. */
async function changeAggregate(tx: ProducerTransaction, name: string): Promise<void> {
  const [row] = await tx.query(
    `select epoch, n, ${epochOf} as here from chaos_aggregates where name = ? for update`,
    [name],
  )
  const epoch = String(row?.['here'])
  const n = row?.['epoch'] === epoch ? Number(row['n']) : 0
  const count = draw.chance(0.2) ? draw.integer(2, 6) : 1
  await tx.query('update chaos_aggregates set epoch = ?, n = ? where name = ?', [epoch, n + count, name])
  const messages = Array.from({ length: count }, (_, index) => {
    const place = n + index + 1
    const ill = illness()
    const payload: Change = {
      versionKey: `${name}@${epoch}`,
      from: place - 1,
      to: place,
      ...(ill !== undefined && { ill }),
      padding: 'x'.repeat(draw.integer(0, draw.chance(0.02) ? 20_000 : 200)),
    }
    return { id: randomUUID(), topic: 'chaos.change', key: name, payload }
  })
  for (const { id, payload } of messages) {
    await tx.query(
      'insert into chaos_committed (message_id, name, epoch, place, ill, producer) values (?, ?, ?, ?, ?, ?)',
      [id, name, epoch, payload.to ?? null, payload.ill ?? null, worker.name],
    )
  }
  await tx.publish(count === 1 && draw.chance(0.5) ? messages[0]! : messages)
}

/** Publishes without locking an aggregate: only the lock of the key gives the messages the order of the commits. */
async function publishNumbered(tx: ProducerTransaction): Promise<void> {
  const name = draw.pick(LOCKED_KEYS)
  const id = randomUUID()
  await tx.publishLocked({ id, topic: 'chaos.numbered', key: name, payload: { padding: '' } })
  await pause(draw.integer(0, 100))
  const [row] = await tx.query(
    `select coalesce(max(place), 0) as place, ${epochOf} as here from chaos_committed where name = ? and epoch = ${epochOf}`,
    [name],
  )
  await tx.query(
    'insert into chaos_committed (message_id, name, epoch, place, producer) values (?, ?, ?, ?, ?)',
    [id, name, String(row?.['here']), Number(row?.['place']) + 1, worker.name],
  )
}

/** Sends a request that other producers send too, as after a lost answer: one message is stored for all sends. */
async function sendRequest(tx: ProducerTransaction): Promise<void> {
  const request = `request-${Math.floor(steadyNow() / 1000)}-${draw.integer(0, 1)}`
  const newId = randomUUID()
  const payload: Change = { padding: '' }
  const { id, duplicate } = await tx.publishOnce({
    id: newId,
    topic: 'chaos.request',
    payload,
    deduplicationId: request,
  })
  await tx.query('insert into chaos_sends (request, message_id, new_id) values (?, ?, ?)', [
    request,
    id,
    newId,
  ])
  worker.count(duplicate ? 'duplicate sends' : 'first sends')
  if (duplicate) return
  await tx.query(`insert into chaos_committed (message_id, epoch, producer) values (?, '', ?)`, [
    id,
    worker.name,
  ])
}

async function publishScheduled(tx: ProducerTransaction): Promise<void> {
  // The ledger says when the message may go at the earliest.
  const deliverAtMs = Math.round(steadyNow()) + draw.integer(200, 4000)
  const id = randomUUID()
  const payload: Change = { padding: '' }
  await tx.query(
    `insert into chaos_committed (message_id, epoch, deliver_at_ms, producer) values (?, '', ?, ?)`,
    [id, deliverAtMs, worker.name],
  )
  await tx.publish({ id, topic: 'chaos.scheduled', payload, deliverAt: new Date(deliverAtMs) })
}

function illness(): Illness | undefined {
  const { ill } = worker.mode
  if (ill === undefined || !draw.chance(0.1)) return undefined
  // Some are to become dead letters.
  return ill === 'throw' && draw.chance(0.2) ? 'fail' : ill
}
