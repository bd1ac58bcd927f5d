import { expect, test } from 'vitest'
import { usePgBoss } from './pg-boss-under-test.ts'

const subject = usePgBoss()

test.for(['commit', 'rollback'] as const)(
  'a job that is sent in the transaction of the work shares its fate: %s',
  async (end) => {
    const queue = await subject.queue()
    const client = await subject.pool.connect()
    try {
      await client.query('begin')
      const db = { executeSql: (text: string, values?: unknown[]) => client.query(text, values) }
      expect(await subject.boss.send(queue, { order: 7 }, { db })).not.toBeNull()
      await client.query(end)
    } finally {
      client.release()
    }
    const jobs = await subject.take(queue)
    expect(jobs.map(({ data }) => data)).toEqual(end === 'commit' ? [{ order: 7 }] : [])
  },
)
