import { expect, test } from 'vitest'
import { QueueStoreUnderTest, messageOf } from '../support/queue-store-under-test.ts'
import { mainKind, useTarget } from '../support/target.ts'

const target = useTarget()

test('Q2 messages of a key come one after the other', async () => {
  const root = target.open(mainKind(target))
  const queue = new QueueStoreUnderTest(root)
  const [a1, a2, b1, none] = await queue.send('a', 'a', 'b', undefined)
  const first = await queue.receive()
  expect(first.map(({ id }) => id).sort()).toEqual([a1, b1, none].sort())
  expect(first[0]!.payload).toEqual(messageOf('a').payload)
  expect(await queue.receive()).toEqual([])
  expect(await queue.store.settle(undefined, first)).toEqual([true, true, true])
  expect(await queue.store.settle(undefined, first)).toEqual([false, false, false])
  const second = await queue.receive()
  expect(second.map(({ id }) => id)).toEqual([a2])
  await root.close()
})
