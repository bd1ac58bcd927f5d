import { expect, inject, test } from 'vitest'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { useTarget } from '../../support/engines/target.ts'
import { DeliveryLog } from '../../support/worlds/delivery-log.ts'
import { Program } from '../../support/worlds/program.ts'
import { until } from '../../support/worlds/until.ts'
import { messageTo, published } from '../published.ts'
import { REGION, useSqs } from '../sqs-under-test.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const sqs = useSqs()

const fifo = inject('queues') === 'fifo'
const VISIBILITY_MS = 2000
const KEYS = 12
const EACH = 30
const KILLS = 6

const order = fifo ? ', in the order of its key' : ''
test(`C1 consumers of a ${fifo ? 'FIFO' : 'standard'} queue are killed and frozen under load: each message takes effect once${order}`, async () => {
  await target.sql('delete from effects')
  const [queue, deadLetterQueue] = [await sqs.current.queue({ fifo }), await sqs.current.queue({ fifo })]
  const messages = Array.from({ length: KEYS * EACH }, (_, at) => {
    const [key, n] = [`key ${at % KEYS}`, Math.floor(at / KEYS)]
    return messageTo(queue, { key, payload: Buffer.from(JSON.stringify({ key, n })) })
  })
  const results = await published(sqs.current.publisher(), messages)
  expect(results.every(({ status }) => status === 'accepted')).toBe(true)
  const config = {
    ...{ url: outbox.url(), log: new DeliveryLog().file, endpoint: sqs.current.endpoint, region: REGION },
    ...{ queue, deadLetterQueue, visibilityTimeoutMs: VISIBILITY_MS },
  }
  const start = (): Promise<Program> => Program.started('sqs-consumer', config)
  const consumers = await Promise.all([start(), start()])
  const effects = async (): Promise<string[]> =>
    (await target.sql('select name from effects order by seq')).map(({ name }) => String(name))
  for (let kills = 1; kills <= KILLS; kills += 1) {
    const wanted = (kills * messages.length) / (KILLS + 2)
    await until(
      async () => (await effects()).length >= wanted,
      async () => `${wanted} effects before kill ${kills}: ${(await effects()).length}`,
      20_000,
    )
    const victim = consumers.shift()!
    if (kills === 3) {
      // Its messages come to the others; then it goes on with what it had.
      victim.pause()
      setTimeout(() => victim.resume(), VISIBILITY_MS + 500)
      consumers.push(victim)
    } else {
      await victim.kill()
      consumers.push(await start())
    }
  }
  await until(
    async () => {
      const { ready, out } = await sqs.current.counts(queue)
      return ready + out === 0
    },
    async () => `the queue is empty: ${JSON.stringify(await sqs.current.counts(queue))}`,
    30_000,
  )
  const done = await effects()
  expect(done.toSorted()).toEqual(messages.map(({ payload }) => nameIn(payload)).toSorted())
  expect((await sqs.current.take(deadLetterQueue)).length).toBe(0)
  if (!fifo) return
  for (let key = 0; key < KEYS; key += 1) {
    const own = done.filter((name) => name.startsWith(`key ${key}:`))
    expect(own).toEqual(Array.from({ length: EACH }, (_, n) => `key ${key}:${n}`))
  }
})

function nameIn(payload: Uint8Array): string {
  const { key, n } = JSON.parse(Buffer.from(payload).toString()) as { key: string; n: number }
  return `${key}:${n}`
}
