import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { useTarget } from '../support/engines/target.ts'
import { until } from '../support/worlds/until.ts'
import { useRedis } from './redis-under-test.ts'
import { leftIn, messageOf, publishUntilAccepted, publisherOf, urlAt } from './streams-under-test.ts'
import { uniqueName } from './unique-name.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
// What Redis has answered is on disk.
const redis = useRedis(['--appendonly', 'yes', '--appendfsync', 'always'])
const MESSAGES = 600

/** How many messages have how many effects. */
async function effectCounts(name: string): Promise<Record<string, number>> {
  const rows = await target.sql(`select name from effects where name like '${name} %'`)
  const byName = Map.groupBy(rows, (row) => String(row['name']))
  const counts: Record<string, number> = {}
  for (const { length } of byName.values()) counts[length] = (counts[length] ?? 0) + 1
  return counts
}

test('C1 C2 consumers and a server that are killed again and again lose nothing and double no effect', async () => {
  const [stream, name] = [uniqueName(), uniqueName('consumer')]
  const env = {
    ...process.env,
    DATABASE_URL: outbox.url(),
    REDIS_URL: urlAt(redis.address),
    STREAM: stream,
    CONSUMER: name,
  }
  const effects = async (): Promise<number> =>
    Object.values(await effectCounts(name)).reduce((a, b) => a + b, 0)
  const start = (): ChildProcess => {
    const file = path.join(import.meta.dirname, 'programs', 'consumer.mjs')
    const child = fork(file, [], { env, stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
    onTestFinished(() => void child.kill('SIGKILL'))
    return child
  }
  const publisher = publisherOf({ url: urlAt(redis.address), confirmTimeoutMs: 2000 })
  const messages = Array.from({ length: MESSAGES }, (_, n) => messageOf({ topic: stream, payload: { n } }))
  const publishing = publishUntilAccepted(publisher, messages, 10)
  const consumers = [start(), start()]
  for (const [turn, point] of [60, 150, 240, 330, 420].entries()) {
    await until(
      async () => (await effects()) >= point,
      async () => `${point} effects: ${await effects()}`,
    )
    if (turn % 2 === 1) await redis.restart()
    const killed = consumers[turn % 2]!
    killed.kill('SIGKILL')
    await once(killed, 'exit')
    consumers[turn % 2] = start()
  }
  await publishing
  await until(
    async () => (await effects()) >= MESSAGES && (await leftIn(redis, stream, name)) === 0,
    async () => `${MESSAGES} effects: ${await effects()}, left: ${await leftIn(redis, stream, name)}`,
  )
  for (const consumer of consumers) {
    consumer.send('stop')
    await once(consumer, 'exit')
  }
  expect(await effectCounts(name)).toEqual({ 1: MESSAGES })
})
