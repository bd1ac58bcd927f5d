import { Pool } from 'pg'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { postgres } from '@txbox/postgres'
import { databaseUrl } from '../support/engines/server-outbox-target.ts'
import { useTarget } from '../support/engines/target.ts'
import { until } from '../support/worlds/until.ts'
import { QUEUE, QueueStoreUnderTest, messageOf } from '../support/subjects/queue-store-under-test.ts'

const target = useTarget()
let pool: Pool

beforeAll(async () => {
  pool = new Pool({ connectionString: await databaseUrl(target), max: 6 })
  pool.on('error', () => undefined)
})
afterAll(() => pool.end())

test('Q19 a listener is woken by its own queue, when the transaction commits, and by no other', async () => {
  const { ports } = new QueueStoreUnderTest({ database: postgres({ db: pool }) as never })
  const woken = { [QUEUE]: 0, other: 0 }
  for (const queue of [QUEUE, 'other'] as const) {
    const failed = (error: unknown): void => expect.unreachable(String(error))
    const listener = ports.listenToQueue!(queue, { woken: () => (woken[queue] += 1), failed })
    onTestFinished(() => listener.close())
  }
  // Each is woken once when it has begun to listen.
  const counts = (): string => JSON.stringify(woken)
  await until(async () => woken[QUEUE] === 1 && woken.other === 1, counts)
  const send = (rollback: boolean): Promise<unknown> =>
    ports.transact(async (_, session) => {
      await ports.queueSender.send(session, [messageOf('a'), messageOf('b')], { notify: true })
      if (rollback) throw new Error('rolled back')
    }, {})
  await expect(send(true)).rejects.toThrow('rolled back')
  await ports.transact((_, session) => ports.queueSender.send(session, [messageOf('a')]), {})
  await send(false)
  await until(async () => woken[QUEUE] > 1, counts)
  expect(woken).toEqual({ [QUEUE]: 2, other: 1 })
})
