import { expect, onTestFinished, test } from 'vitest'
import { RelayGauges } from '../../../packages/relay/src/relay-gauges.ts'
import { RelayRun } from '../../../packages/relay/src/relay-run.ts'
import { checkRelayOptions } from '../../../packages/relay/src/options/relay-options.ts'
import { Broker, rejected } from '../../support/worlds/broker.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { keysOfOneShard } from '../../support/subjects/keys.ts'
import { messagesOf, publishAll, withRelayStore } from '../../support/subjects/relay-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(target, mainKind(target))
const PARKED = target.engine === 'postgres' ? 'txbox.parked' : 'txbox_parked'

/** A relay that looks for keys without a head after this time, not after a minute. Counts these looks by shard. */
async function startRun(broker: Broker, healAfterMs: number, refused: ReadonlySet<string> = new Set()) {
  const heals = new Map<number, number>()
  const { database } = withRelayStore(root, (inner) => ({
    healKeys: (lease, shard) => {
      heals.set(shard, (heals.get(shard) ?? 0) + 1)
      return inner.healKeys(lease, shard)
    },
  }))
  const publisher = broker.publisher({
    respond: (call) =>
      call.messages.map((message) =>
        refused.has(message.id) ? rejected({ retryAfterMs: 600_000 }) : call.accept(message),
      ),
  })
  const { settings } = checkRelayOptions({ database, publisher, pollIntervalMs: { min: 2, max: 20 } })
  const run = new RelayRun({ ...settings, healAfterMs }, new RelayGauges(settings))
  const errors: unknown[] = []
  settings.events.on('error', ({ error }) => void errors.push(error))
  settings.events.on('parked', () => undefined)
  await run.start()
  onTestFinished(() => run.stop(500))
  return { run, heals, errors }
}

test('O4 a key whose parked head was deleted by hand continues while its relay has no other work', async () => {
  const keys = [...keysOfOneShard(2), 'a key of some other shard']
  const ids = await Promise.all(keys.map((key) => publishAll(root, messagesOf(key, 3))))
  const heads = ids.map(([head]) => head!)
  const broker = new Broker()
  const { errors } = await startRun(broker, 100, new Set(heads))
  await until(
    async () => (await outbox.parked()).length === 9,
    async () => `9 parked messages; there are ${JSON.stringify(await outbox.parked())}`,
  )
  for (const head of heads) await outbox.sql(`delete from ${PARKED} where id = ?`, [head])
  expect((await outbox.parked()).filter(({ due }) => due)).toEqual([])
  await outbox.settled()
  for (const [n, key] of keys.entries()) expect(broker.ids(key)).toEqual(ids[n]!.slice(1))
  expect(errors).toEqual([])
})

test('O4 every shard that is held heals again and again, with work or without', async () => {
  const { heals } = await startRun(new Broker(), 100)
  for (let round = 1; round <= 3; round++) {
    await publishAll(root, messagesOf('a', 5))
    await until(
      async () => heals.size === 16 && Math.min(...heals.values()) >= round,
      () => `${round} looks at each of 16 shards; there were ${[...heals.values()].join(', ')}`,
    )
  }
})

test('O4 a shard that is busy looks for such keys no more often than it should', async () => {
  const broker = new Broker()
  const { heals } = await startRun(broker, 60_000)
  await until(
    async () => heals.size === 16,
    () => `a look at each of 16 shards; there was one at ${heals.size}`,
  )
  for (let round = 0; round < 20; round++) await publishAll(root, messagesOf('a', 2))
  await outbox.settled()
  expect([...heals.values()]).toEqual(Array.from({ length: 16 }, () => 1))
})
