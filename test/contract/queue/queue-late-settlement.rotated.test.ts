import { expect, test } from 'vitest'
import type { Session } from '@txbox/core'
import type { QueueMessage } from '@txbox/core/ports'
import { QUEUE, QueueStoreUnderTest } from '../../support/subjects/queue-store-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target), { max: 6 })
const table = target.outboxTable.replace(/outbox$/, 'queue')

/** Receives this many messages, or all. A slow receive returns before it has visited all shards. */
async function receiveAll(subject: QueueStoreUnderTest, count = Infinity): Promise<QueueMessage[]> {
  const all: QueueMessage[] = []
  while (all.length < count) {
    const received = await subject.receive()
    if (received.length === 0) break
    all.push(...received)
  }
  return all
}

/** Settles two messages of each kind while one of them is locked, until the visibility timeout of all is over. */
async function settleLate(how: 'in a transaction' | 'alone'): Promise<void> {
  const subject = new QueueStoreUnderTest(root)
  const queue = `${QUEUE} ${how}`
  await target.sql(`delete from ${table}`)
  await subject.send('a', 'b', undefined, undefined)
  const received = await receiveAll(subject, 4)
  expect(await subject.store.extend(received, 1000), queue).toEqual([true, true, true, true])
  const [{ due } = {}] = await target.sql(`select max(due_at) as due from ${table}`)
  const blocker = await root.begin()
  await blocker.exec(
    `select place from ${table} where place in (${received.map(({ place }) => place).join()}) for update`,
  )
  const settle = (session?: Session): Promise<readonly boolean[]> => subject.store.settle(session, received)
  const settling = how === 'alone' ? settle() : subject.ports.transact((_, session) => settle(session), {})
  await target.past(new Date((due as Date).getTime() + 300))
  await blocker.rollback()
  const valid = await settling
  // The effects of those whose receipts were valid are committed.
  const refused = received.flatMap(({ id }, n) => (valid[n] === true ? [] : [id]))
  const again = (await receiveAll(subject)).map(({ id }) => id)
  expect(again.toSorted()).toEqual(refused.toSorted())
}

test('Q7 one call settles several messages in a transaction: no message whose receipt was valid is received again, however long the call waited', async () => {
  await settleLate('in a transaction')
})

test('Q7 one call settles several messages without a transaction: no message whose receipt was valid is received again, however long the call waited', async () => {
  await settleLate('alone')
})
