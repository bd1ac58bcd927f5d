import { randomUUID } from 'node:crypto'
import { PgBoss } from 'pg-boss'
import { describe, expect, test } from 'vitest'
import { pgBossPublisher, type PgBossPublisherOptions } from '@txbox/pg-boss'
import { failure, outboxMessage, publish, reason, signal, summary } from '../support/subjects/publishing.ts'
import { usePgBoss } from './pg-boss-under-test.ts'

const subject = usePgBoss()
const publisher = (options: Partial<PgBossPublisherOptions> = {}) =>
  pgBossPublisher({ boss: subject.boss, ...options })

describe('jobs', () => {
  test('a UUID is the id of the job; any other id has a UUID of version 8', async () => {
    const topic = await subject.queue()
    const uuid = randomUUID()
    const ids = [uuid, 'order 1', uuid.toUpperCase()]
    expect(
      summary(
        await publish(
          publisher(),
          ids.map((id) => outboxMessage({ topic, id })),
        ),
      ),
    ).toEqual(ids.map(() => 'accepted'))
    const jobs = new Map((await subject.take(topic)).map(({ id, data }) => [data['id'], id]))
    expect(jobs.get(uuid)).toBe(uuid)
    expect(jobs.get('order 1')).toMatch(/^[\da-f]{8}-[\da-f]{4}-8[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/)
    expect(new Set(jobs.values()).size).toBe(3)
  })

  test('a resend is no second job, also after the job was completed', async () => {
    const topic = await subject.queue()
    const message = outboxMessage({ topic, id: 'order 1' })
    expect(summary(await publish(publisher(), [message]))).toEqual(['accepted'])
    const [job] = await subject.take(topic)
    await subject.boss.complete(topic, job!.id)
    expect(summary(await publish(publisher(), [message, message]))).toEqual(['accepted', 'accepted'])
    expect(await subject.take(topic)).toEqual([])
  })

  test('numbers that JavaScript cannot hold keep their digits in the database', async () => {
    const topic = await subject.queue()
    const numbers = '[9007199254740993, 12345678901234567890.123, 1e400, 1.50, -0.0, 7]'
    await publish(publisher(), [outboxMessage({ topic, payload: Buffer.from(numbers) })])
    const { rows } = await subject.pool.query(
      `select data->'payload' = '${numbers}'::jsonb as same from pgboss.job where name = $1`,
      [topic],
    )
    expect(rows).toEqual([{ same: true }])
  })

  test('options of jobs are those that the function returns, and cannot change id and data', async () => {
    const topic = await subject.queue()
    const job = () => ({
      priority: 7,
      retryLimit: 3,
      singletonKey: 'a',
      id: randomUUID(),
      data: { other: 1 },
    })
    const message = outboxMessage({ topic, id: randomUUID() })
    expect(summary(await publish(publisher({ job }), [message]))).toEqual(['accepted'])
    const [stored] = await subject.take(topic)
    expect(stored).toMatchObject({ id: message.id, priority: 7, retryLimit: 3, singletonKey: 'a' })
    expect(stored!.data['payload']).toEqual({ n: 1 })
  })

  test("'payload' stores the payload alone, and refuses what is not JSON", async () => {
    const topic = await subject.queue()
    const results = await publish(publisher({ data: 'payload' }), [
      outboxMessage({ topic, headers: { a: 'b' }, payload: Buffer.from('{"total":7}') }),
      outboxMessage({ topic, contentType: 'application/vnd.order+json', payload: Buffer.from('[1]') }),
      outboxMessage({ topic, contentType: 'text/plain' }),
      outboxMessage({ topic, payload: Buffer.from('{') }),
    ])
    expect(summary(results)).toEqual(['accepted', 'accepted', 'rejected for good', 'rejected for good'])
    expect(reason(results[2])).toMatch(/not JSON.*data: 'envelope'/)
    const stored = (await subject.take(topic)).map(({ data }) => JSON.stringify(data))
    expect(stored.toSorted()).toEqual(['[1]', '{"total":7}'])
  })

  test('the jobs of a key are created in their order', async () => {
    const topic = await subject.queue()
    const messages = Array.from({ length: 20 }, () => outboxMessage({ topic, key: 'k' }))
    await publish(publisher(), messages)
    expect((await subject.take(topic)).map(({ data }) => data['id'])).toEqual(messages.map(({ id }) => id))
  })
})

describe('refusals', () => {
  test('the name of a queue that pg-boss cannot have is refused with its size and the limit', async () => {
    const topics = ['q'.repeat(256), 'a b', '']
    const results = await publish(
      publisher(),
      topics.map((topic) => outboxMessage({ topic })),
    )
    expect(summary(results)).toEqual(topics.map(() => 'rejected for good'))
    expect(reason(results[0])).toMatch(/its queue 'q+…' has 256 characters; pg-boss allows 255/)
    expect(reason(results[1])).toMatch(/its queue 'a b' is no name of a queue/)
  })

  test('a queue that was there and was deleted counts no attempt; a queue that never was counts', async () => {
    const topic = await subject.queue()
    const sends = publisher()
    expect(summary(await publish(sends, [outboxMessage({ topic })]))).toEqual(['accepted'])
    await subject.boss.deleteQueue(topic)
    const [gone, missing] = await publish(sends, [
      outboxMessage({ topic }),
      outboxMessage({ topic: 'never' }),
    ])
    expect(gone).toMatchObject({ status: 'rejected', retryable: true, counted: false })
    expect(missing).toMatchObject({ status: 'rejected', retryable: true })
    expect(missing).not.toHaveProperty('counted')
    expect(reason(missing)).toMatch(/'never' of pg-boss, which does not exist.*boss\.createQueue/)
  })

  test('a job that the policy of a queue forbids is rejected alone, and counted', async () => {
    const topic = await subject.queue({ policy: 'key_strict_fifo' })
    const job = ({ key }: { key?: string }) => (key === undefined ? {} : { singletonKey: key })
    const messages = [undefined, 'a', 'b'].map((key) =>
      outboxMessage({ topic, ...(key !== undefined && { key }) }),
    )
    const results = await publish(publisher({ job }), messages)
    expect(summary(results)).toEqual(['rejected for now', 'accepted', 'accepted'])
    expect(reason(results[0])).toMatch(/require a singletonKey/)
  })

  test('a dead letter queue that does not exist rejects its messages only', async () => {
    const topic = await subject.queue()
    const job = ({ type }: { type?: string }) => (type === undefined ? {} : { deadLetter: 'nowhere' })
    const results = await publish(publisher({ job }), [
      outboxMessage({ topic, type: 'a' }),
      outboxMessage({ topic }),
    ])
    expect(summary(results)).toEqual(['rejected for now', 'accepted'])
  })

  test('a function that throws rejects its message for now', async () => {
    const topic = await subject.queue()
    const queue = ({ type }: { type?: string }): string => {
      if (type === 'bad') throw new Error('no queue')
      return topic
    }
    const messages = [outboxMessage({ topic, type: 'bad' }), outboxMessage({ topic })]
    const results = await publish(publisher({ queue }), messages)
    expect(summary(results)).toEqual(['rejected for now', 'accepted'])
  })

  test('no error quotes the data of a message', async () => {
    const topic = await subject.queue()
    const payload = Buffer.from(String.raw`{"hidden":"hidden-word \u0000"}`)
    const [result] = await publish(publisher(), [outboxMessage({ topic, payload })])
    const { error } = result as { error: Error }
    expect(error.cause).toBeUndefined()
    expect(JSON.stringify(error, Object.getOwnPropertyNames(error))).not.toContain('hidden-word')
  })
})

describe('outages', () => {
  test('a pg-boss that was not started throws, and check says so', async () => {
    const boss = new PgBoss({ connectionString: subject.url })
    const sends = publisher({ boss })
    const error = await failure(publish(sends, [outboxMessage({ topic: 'orders' })]))
    expect(error).toMatchObject({ code: 'TXBOX_BROKER_UNAVAILABLE' })
    expect(error.message).toMatch(/boss\.start\(\)/)
    await expect(sends.check!({ signal: signal() })).rejects.toMatchObject({
      code: 'TXBOX_BROKER_UNAVAILABLE',
    })
    await expect(publisher().check!({ signal: signal() })).resolves.toBeUndefined()
  })

  test('close leaves pg-boss running', async () => {
    const topic = await subject.queue()
    const sends = publisher()
    await sends.close!()
    await expect(publish(sends, [outboxMessage({ topic })])).rejects.toThrow(/closed/)
    expect(await subject.boss.send(topic, {})).not.toBeNull()
  })
})
