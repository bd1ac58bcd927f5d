import { expect, onTestFinished, test } from 'vitest'
import type { TransactionHandle } from '@txbox/core'
import type { Queue } from '@txbox/queue'
import { QueueUnderTest, idsOf } from '../support/subjects/queue-under-test.ts'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'
import { until } from '../support/worlds/until.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target), { max: 6 })

interface HeldReceiver {
  readonly queue: Queue<TransactionHandle>
  /** Resolves when the receiver has put a message back, and its COMMIT waits. */
  readonly held: () => Promise<void>
  readonly letGo: () => Promise<void>
}

/** A receiver whose COMMIT waits after it has put a message back. */
async function heldReceiver(subject: QueueUnderTest): Promise<HeldReceiver> {
  // The library may send COMMIT together with the statements before it.
  await target.sql(`create function wait() returns trigger language plpgsql as $$
    begin perform pg_advisory_xact_lock(1); return null; end $$`)
  await target.sql(`create constraint trigger wait after update on ${subject.table} deferrable initially deferred
    for each row when (new.due_at is null and new.dead_at is null) execute function wait()`)
  onTestFinished(async () => void (await target.sql('drop function wait cascade')))
  const blocker = await root.begin()
  await blocker.exec('select pg_advisory_xact_lock(1)')
  const waiting = `select from pg_locks where locktype = 'advisory' and not granted
    and database = (select oid from pg_database where datname = current_database())`
  const held = (): Promise<void> =>
    until(
      async () => (await target.sql(waiting)).length > 0,
      () => 'the receiver waits',
    )
  return { queue: subject.twin(root), held, letGo: () => blocker.rollback() }
}

type Finish = (subject: QueueUnderTest, receipt: { readonly receipt: string }) => Promise<unknown>

/** Ends the first message of a key after a receiver has put the second one back, and before the receiver commits. */
async function whilePuttingBack(
  finish: Finish,
): Promise<{ subject: QueueUnderTest; second: string; received: readonly string[] }> {
  const subject = new QueueUnderTest(target, root)
  const receiver = await heldReceiver(subject)
  await subject.send({ key: 'a' })
  const first = await subject.receiveOne()
  const [second] = await subject.send({ key: 'a' })
  const receiving = receiver.queue.receive()
  await receiver.held()
  try {
    await finish(subject, first)
  } finally {
    await receiver.letGo()
  }
  // The receiver looks again after it has put a message back.
  const received = [...(await receiving), ...(await subject.receive({ waitMs: 300 }))]
  return { subject, second: second!, received: idsOf(received) }
}

const ENDS: Readonly<Record<string, Finish>> = {
  'is deleted': ({ queue }, receipt) => queue.delete(receipt),
  'is deleted in a transaction': async ({ queue }, receipt) => {
    const work = await root.begin()
    await queue.delete(receipt, { tx: work.tx })
    await work.commit()
  },
  'becomes a dead letter': ({ queue }, receipt) => queue.bury(receipt, { error: 'never' }),
}

for (const [ends, finish] of Object.entries(ENDS)) {
  test(`Q20 the first message of a key ${ends} while a receiver is putting the second one back: the second one is received`, async () => {
    const { second, received } = await whilePuttingBack(finish)
    expect(received).toEqual([second])
  })
}

test('Q20 the test finds a wake-up that is lost: the end of a message must not make the next one visible, which is left to receivers', async () => {
  const { subject, received } = await whilePuttingBack(async (planted) => {
    const { table } = planted
    const rows = await planted.sql(`select place from ${table} where topic = ? order by place`)
    const [first, second] = rows.map(({ place }) => String(place))
    await target.sql(`delete from ${table} where place = ?`, [first!])
    await target.sql(`update ${table} set due_at = clock_timestamp() where place = ? and due_at is null`, [
      second!,
    ])
  })
  expect(received).toEqual([])
  expect(await subject.size('and due_at is null')).toBe(1)
})
