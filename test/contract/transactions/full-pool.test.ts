import { expect, test } from 'vitest'
import { DatabaseUnavailableError } from '@txbox/core'
import { connectedPortsOf } from '@txbox/core/internal'
import { Proxy } from '../../support/worlds/proxy.ts'
import { onEachRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const everything = { ids: undefined, topic: undefined, type: undefined, key: undefined, after: undefined }

function expectDatabaseBlamed(error: unknown): void {
  const { message } = error as Error
  expect(message).toMatch(/database.* (has not answered|did not answer)|timeout/i)
  expect(message).not.toMatch(/became free within/)
}

onEachRoot(target, (kind) => {
  // Where a library hides whether its pool is full, the message of a transaction leaves open which of the two did not answer.
  const fullPool =
    kind.library === 'kysely'
      ? /No connection of the pool became free/
      : /No connection of the pool became free within 300 ms: /
  test('N1 a statement that waits for a connection of the pool says so, and does not blame the database', async () => {
    const root = target.open(kind, { max: 2 })
    const ports = connectedPortsOf('test', root.database)
    await ports.checkSchema()
    const held = [await root.begin(), await root.begin()]
    const store = ports.deadLetters({ statementTimeoutMs: 300 })
    const calls = [
      () => store.list(everything, 1),
      () => store.redrive(everything, 1, 'me'),
      () => ports.inspection().answers(300),
    ]
    for (const call of calls) {
      const error: unknown = await Promise.resolve(call()).catch((reason: unknown) => reason)
      expect(error).toBeInstanceOf(DatabaseUnavailableError)
      expect((error as Error).message).toMatch(fullPool)
    }
    for (const transaction of held) await transaction.rollback()
    expect((await store.list(everything, 1)).messages).toEqual([])
    await root.close()
  })

  test('N1 a statement that the database does not answer does not blame the pool alone', async () => {
    const proxy = await Proxy.to(target.address())
    const root = target.open(kind, { max: 2, through: proxy })
    const ports = connectedPortsOf('test', root.database)
    await ports.checkSchema()
    const store = ports.deadLetters({ statementTimeoutMs: 300 })
    await store.list(everything, 1)
    const held = proxy.hold(/select/i)
    const error: unknown = await store.list(everything, 1).catch((reason: unknown) => reason)
    expectDatabaseBlamed(error)
    held.letGo()
    // A pool of mysql2 whose connection was destroyed while it waited for an answer may never end.
    await proxy.close()
    root.close().catch(() => undefined)
  })

  test('N1 a statement that waited for the pool, and then for the database, does not blame the pool alone', async () => {
    const proxy = await Proxy.to(target.address())
    const root = target.open(kind, { max: 2, through: proxy })
    const ports = connectedPortsOf('test', root.database)
    await ports.checkSchema()
    const store = ports.deadLetters({ statementTimeoutMs: 1500 })
    const [first, second] = [await root.begin(), await root.begin()]
    const held = proxy.hold(/select/i)
    const listed = store.list(everything, 1).catch((reason: unknown) => reason)
    await first.rollback()
    expectDatabaseBlamed(await listed)
    held.letGo()
    await second.rollback()
    await proxy.close()
    root.close().catch(() => undefined)
  })
})
