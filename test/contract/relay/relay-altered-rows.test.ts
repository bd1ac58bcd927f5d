import { describe, expect, test } from 'vitest'
import { InvalidOptionError } from '@txbox/core'
import { createDeadLetters } from '@txbox/relay'
import { Broker } from '../../support/worlds/broker.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { publishAll, RelayUnderTest } from '../../support/subjects/relay-under-test.ts'
import { mainKind, useRoot, useTarget, type Root } from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(target, target.kinds[0]!)
const prefix = target.engine === 'postgres' ? 'txbox.' : 'txbox_'

/** Drains with a new relay. @returns the messages that the broker has received */
async function drained(by: Root = root): Promise<readonly string[]> {
  const broker = new Broker()
  const { relay } = new RelayUnderTest(by, broker.publisher())
  await relay.drain()
  await relay.stop()
  return broker.log.map(({ message }) => message.id)
}

async function publish(...ids: readonly string[]): Promise<void> {
  await publishAll(
    root,
    ids.map((id) => ({ topic: 't', key: id, id, payload: {} })),
  )
}

test.for([['null'], ['[]'], ['{"a":1}']])(
  'a row whose headers were altered to %s is a dead letter, and the others continue',
  async ([headers]) => {
    await publish('altered', 'beside')
    await outbox.sql(`update ${prefix}outbox set headers = ? where id = 'altered'`, [headers])
    expect(await drained()).toEqual(['beside'])
    const [letter] = await createDeadLetters({ database: root.database }).list()
    expect(letter).toMatchObject({ id: 'altered', error: expect.stringContaining('headers') })
  },
)

// On PostgreSQL, a pg.Pool reads and settles in the binary format, which counts microseconds since 2000.
describe.each([...new Set([target.kinds[0]!, mainKind(target)])])('a relay on the root of: $name', (kind) => {
  const own = useRoot(target, kind)
  test.for([['1700-06-01 00:00:00.000001'], ['2199-12-31 23:59:59.999999']])(
    'O1 O5 a row whose time was altered to %s is published once, and deleted',
    async ([time]) => {
      await publish('altered')
      await outbox.sql(`update ${prefix}outbox set created_at = ? where id = 'altered'`, [
        target.engine === 'postgres' ? `${time}+00` : time,
      ])
      expect(await drained(own)).toEqual(['altered'])
      expect(await outbox.sql(`select id from ${prefix}outbox`)).toEqual([])
    },
  )
})

test('O5 a dead letter that was made due by hand does not keep drain from ending', async () => {
  await publish('dead')
  await outbox.sql(`update ${prefix}outbox set headers = '{' where id = 'dead'`)
  await drained()
  await outbox.sql(`update ${prefix}parked set due_at = '2000-01-01' where id = 'dead'`)
  await publish('later')
  expect(await drained()).toEqual(['later'])
  expect(await createDeadLetters({ database: root.database }).list()).toHaveLength(1)
})

test('a lease whose count of crashes is at its maximum can be taken', async () => {
  await drained()
  await outbox.sql(
    `update ${prefix}leases set owner = 'gone', expires_at = '2000-01-01', crashes = ${target.engine === 'postgres' ? '2147483647' : '4294967295'}`,
  )
  await publish('a')
  expect(await drained()).toEqual(['a'])
})

test.for<[string]>([['a\0b'], ['a\uD800']])('an id that no row can have is refused: %j', async ([id]) => {
  const letters = createDeadLetters({ database: root.database })
  await expect(letters.discard({ ids: [id] })).rejects.toThrow(InvalidOptionError)
})
