import { expect, onTestFinished, test } from 'vitest'
import { DatabaseUnavailableError } from '@txbox/core'
import { QueueStoreUnderTest } from '../../support/subjects/queue-store-under-test.ts'
import { mainKind, useTarget } from '../../support/engines/target.ts'
import { UnreliableNetwork } from '../../support/worlds/unreliable-network.ts'

const target = useTarget()

test('Q19 a receive whose connection is silently dead is given up after its own, shorter time', async () => {
  const network = await UnreliableNetwork.to(target.address())
  const remote = target.open(mainKind(target), { through: network, max: 2 })
  onTestFinished(async () => {
    await network.close()
    await remote.close()
  })
  const store = new QueueStoreUnderTest(remote, 60_000, 500)
  await store.send('a', 'b')
  expect((await store.receive({ limit: 1 })).length).toBe(1)
  network.freeze()
  const began = performance.now()
  await expect(store.receive()).rejects.toThrow(DatabaseUnavailableError)
  expect(performance.now() - began).toBeLessThan(20_000)
})
