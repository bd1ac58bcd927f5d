import { expect, test } from 'vitest'
import type { TransactionHandle } from '@txbox/core'
import { connectedPortsOf } from '@txbox/core/internal'
import { wakeLocalConsumers } from '../../../packages/consumer/src/local/local-hub.ts'
import { LocalUnderTest } from '../../support/subjects/local-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target), { max: 24 })
/** Without a wake-up, a test would wait for a minute. */
const OPTIONS = { pollIntervalMs: { min: 60_000, max: 60_000 } }

test('T3 the consumers of this process look at once when a handler has published', async () => {
  const subject = new LocalUnderTest(target, root, { made: ['billing'], paid: ['mailer'] })
  await subject.start('mailer', { paid: () => undefined }, OPTIONS)
  await subject.publish({ key: 'a' })
  const handler = async (tx: TransactionHandle): Promise<void> => {
    await subject.publishIn({ tx }, { type: 'paid', key: 'a' })
  }
  await subject.start('billing', { made: handler }, OPTIONS)
  await subject.hears('handled', 1, 'mailer', 5000)
  expect(subject.runs.map(({ consumer }) => consumer)).toEqual(['billing', 'mailer'])
})

test('T3 a message that was published beside a sleeping consumer is handled at once after a wake-up', async () => {
  const subject = new LocalUnderTest(target, root)
  await subject.start('billing', () => undefined, OPTIONS)
  await subject.publish({ key: 'a' })
  wakeLocalConsumers(connectedPortsOf('test', root.database))
  await subject.hears('handled', 1, 'billing', 5000)
})
