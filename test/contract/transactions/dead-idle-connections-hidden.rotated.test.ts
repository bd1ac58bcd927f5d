import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { QueueStoreUnderTest } from '../../support/subjects/queue-store-under-test.ts'
import {
  kindsOfRoots,
  useTarget,
  type HandleKind,
  type OpenTransaction,
} from '../../support/engines/target.ts'
import { UnreliableNetwork } from '../../support/worlds/unreliable-network.ts'

const target = useTarget()
const DRIVERS: ReadonlySet<string> = new Set(['pg', 'mysql2'])
const IDLE = 5
/** A receive without an answer fails after this time. */
const LIMIT_MS = 4000
/** Less than three limits. */
const STANDSTILL_MS = 11_000

/** The roots of libraries that hide the idle connections of their pools: one of them if the project has a driver's pool. */
function kindsOfHiding(): readonly HandleKind[] {
  const isHiding = ({ library }: HandleKind): boolean => !DRIVERS.has(library)
  const kinds = kindsOfRoots(target).filter(isHiding)
  return kinds.length > 0 ? kinds : target.kinds.filter(isHiding).slice(0, 1)
}

describe.each(kindsOfHiding())('$name', (kind) => {
  test('Q19 of the hidden idle connections that have died silently, the first one costs a receive its limit, and each other one a second', async () => {
    const network = await UnreliableNetwork.to(target.address())
    // Kysely's driver for PostgreSQL cannot discard a connection: the pool is larger than all of them.
    const remote = target.open(kind, { through: network, max: IDLE + 4 })
    const direct = target.open(kind)
    await Promise.all([remote.ready?.(), direct.ready?.()])
    onTestFinished(async () => {
      await network.close()
      await Promise.all([remote.close(), direct.close()])
    })
    const store = new QueueStoreUnderTest(remote, 60_000, LIMIT_MS)
    const sender = new QueueStoreUnderTest(direct)
    await sender.send(`${kind.name} before`)
    expect(await store.receive()).toHaveLength(1)
    await sender.send(`${kind.name} after`)
    const idle: OpenTransaction[] = await Promise.all(Array.from({ length: IDLE }, () => remote.begin()))
    for (const transaction of idle) await transaction.rollback()
    network.abandon()
    const began = performance.now()
    let received = 0
    while (received === 0) {
      received = await store.receive().then(
        ({ length }) => length,
        () => sleep(100, 0),
      )
    }
    expect(performance.now() - began).toBeLessThan(STANDSTILL_MS)
  })
})
