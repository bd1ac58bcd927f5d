import { expect, test } from 'vitest'
import { fromRedis } from '@txbox/redis'
import { useRedis } from './redis-under-test.ts'
import { uniqueName } from './unique-name.ts'

const redis = useRedis()

test('fromRedis takes the entries of both clients as bytes, and no texts', async () => {
  const stream = uniqueName()
  const fieldsOf = ['id', 'a', 'type', 'order.paid', 'headers', '{"tenant":"north"}', 'payload', '{"n":1}']
  const entryId = String(await redis.ask('XADD', stream, '*', ...fieldsOf))
  const [ioredis] = (await redis.askBytes('XRANGE', stream, '-', '+')) as [[Buffer, Buffer[]]]
  const expected = {
    ...{ id: 'a', type: 'order.paid', headers: { tenant: 'north' }, payload: { n: 1 } },
    time: new Date(Number(entryId.split('-')[0])),
  }
  expect(fromRedis(ioredis)).toEqual(expected)
  const fields = Object.fromEntries(
    ioredis[1].flatMap((name, n) => (n % 2 === 0 ? [[String(name), ioredis[1][n + 1]]] : [])),
  )
  expect(fromRedis({ id: entryId, message: fields })).toEqual(expected)
  const [texts] = (await redis.ask('XRANGE', stream, '-', '+')) as [[string, string[]]]
  expect(() => fromRedis(texts)).toThrow(/must be bytes.*withTypeMapping/)
  for (const wrong of [undefined, 'a', [], {}, { id: 'a' }]) {
    expect(() => fromRedis(wrong as never)).toThrow(/expected an entry|no message id/)
  }
})
