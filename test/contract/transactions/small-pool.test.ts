import { createGarbageCollector } from '@txbox/gc'
import { createConsumer } from '@txbox/consumer'
import { createInbox } from '@txbox/inbox'
import { createRelay } from '@txbox/relay'
import { expect, test } from 'vitest'
import { mainKind, useTarget, type Root } from '../../support/engines/target.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { MemorySource } from '../../support/subjects/memory-source.ts'
import { Broker } from '../../support/worlds/broker.ts'
import { smallPoolWarnings } from '../../support/worlds/warnings.ts'

const target = useTarget()
useOutboxTarget(target)
const kind = mainKind(target)
/** Kysely, which is the main kind on MariaDB, hides its pool. */
const showsPool = kind.library !== 'kysely'

async function startParts({ database }: Root, concurrency: number): Promise<() => Promise<void>> {
  const relay = createRelay({ database, publisher: new Broker().publisher() })
  const gc = createGarbageCollector({ database })
  const inbox = createInbox({ database, consumer: 'billing' })
  const consumer = createConsumer({
    source: new MemorySource(),
    inbox,
    concurrency,
    handler: async () => undefined,
  })
  for (const part of [relay, gc, consumer]) await part.start()
  await new Promise((resolve) => setImmediate(resolve))
  return async () => void (await Promise.all([relay.stop(), gc.stop(), consumer.stop()]))
}

test('N1 parts that together may need more connections than their pool opens warn once, with the sum', async () => {
  const caught = smallPoolWarnings()
  const root = target.open(kind, { max: 8 })
  const stop = await startParts(root, 4)
  await stop()
  // The parts of before have stopped, and a pool is reported once.
  await (
    await startParts(root, 4)
  )()
  const sum = expect.stringMatching(
    /may need 9 connections at once \(relay 4, garbage collector 1, consumer 'billing' 4\), but the pool opens at most 8\./,
  )
  expect(caught).toEqual(showsPool ? [sum] : [])
  await root.close()
})

test('N1 parts that stopped do not count, and a pool that is large enough causes no warning', async () => {
  const caught = smallPoolWarnings()
  const root = target.open(kind, { max: 9 })
  for (let n = 0; n < 2; n++) await (await startParts(root, 4))()
  expect(caught).toEqual([])
  await root.close()
})
