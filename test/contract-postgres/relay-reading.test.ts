import { expect, test } from 'vitest'
import * as fc from 'fast-check'
import { portsKey } from '@txbox/core'
import type { BacklogMessage, ConnectedPorts, ReadLimits } from '@txbox/core/ports'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { useRoot, useTarget } from '../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const SHARD = 5
const roots = target.kinds.map((kind) => useRoot(target, kind, { max: 2 }))

const text = fc.string({ unit: 'grapheme', maxLength: 40 }).map((value) => value.replaceAll('\0', ''))
const usualText = fc.constantFrom('orders', 'ördërs', '')
/** Up to 2^53 microseconds after 1970, beyond which a stamp is not exact. */
const instant = fc
  .date({ min: new Date('1970-01-01'), max: new Date('2255-06-01'), noInvalidDate: true })
  .map((date) => date.toISOString().replace('Z', '789Z'))
const stored = fc.record({
  id: text,
  topic: fc.oneof(usualText, text),
  type: fc.option(usualText),
  content_type: fc.constantFrom('application/json', 'text/plain', 'application/protobuf'),
  headers: fc.constantFrom('{}', '{"a":"1"}', '{"ä":"€"}', 'none'),
  key: fc.option(text),
  correlation_id: fc.option(text),
  created_at: instant,
  payload: fc.oneof(
    fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
    text.map((value) => Buffer.from(value)),
  ),
})

/** Numbers in order: the last one of a bigint, and those beyond which a JavaScript number is not exact. */
const seqs = fc
  .uniqueArray(fc.oneof(fc.bigInt(1n, 2n ** 63n - 1n), fc.bigInt(2n ** 53n - 9n, 2n ** 53n + 9n)), {
    minLength: 30,
    maxLength: 30,
  })
  .map((numbers) => numbers.toSorted((a, b) => (a < b ? -1 : 1)))

const COLUMNS = ['id', 'topic', 'type', 'content_type', 'headers', 'key', 'correlation_id'] as const

function portsOf(database: object): ConnectedPorts {
  return (database as Record<symbol, ConnectedPorts>)[portsKey]!
}

test('O12 every way of reading returns the same messages, as they were stored', async () => {
  const read = async (limits: ReadLimits): Promise<readonly (readonly BacklogMessage[])[]> =>
    Promise.all(
      roots.map(({ database }) =>
        portsOf(database).relay({ statementTimeoutMs: 10_000 }).read(SHARD, limits),
      ),
    )
  expect(roots.length).toBeGreaterThan(1)
  await fc.assert(
    fc.asyncProperty(
      fc.array(stored, { maxLength: 30 }),
      seqs,
      fc.nat({ max: 400 }),
      async (rows, numbers, bytes) => {
        await outbox.sql('delete from txbox.outbox')
        if (rows.length > 0) {
          const values = rows.map(
            () => `(${SHARD}, ?, ${COLUMNS.map(() => '?').join(', ')}, ?::timestamptz, decode(?, 'hex'))`,
          )
          await outbox.sql(
            `insert into txbox.outbox (shard, seq, ${COLUMNS.join(', ')}, created_at, payload) values ${values.join(', ')}`,
            rows.flatMap((row, n) => [
              numbers[n],
              ...COLUMNS.map((column) => row[column]),
              row.created_at,
              row.payload.toString('hex'),
            ]),
          )
        }
        const all = await read({ messages: 100, bytes: 1_000_000 })
        for (const messages of all) expect(messages).toEqual(all[0])
        expect(
          all[0]!.map((message) => [message.id, message.topic, message.type ?? null, message.contentType]),
        ).toEqual(rows.map((row) => [row.id, row.topic, row.type, row.content_type]))
        expect(all[0]!.map(({ seq }) => seq)).toEqual(numbers.slice(0, rows.length))
        expect(all[0]!.map(({ key, correlationId }) => [key ?? null, correlationId ?? null])).toEqual(
          rows.map((row) => [row.key, row.correlation_id]),
        )
        expect(all[0]!.map(({ createdAt }) => createdAt.toISOString())).toEqual(
          rows.map((row) => row.created_at.replace('789Z', 'Z')),
        )
        expect(all[0]!.map(({ payload }) => Buffer.from(payload).toString('hex'))).toEqual(
          rows.map(({ payload }) => payload.toString('hex')),
        )
        expect(all[0]!.map(({ headers, undecodable }) => [headers, undecodable !== undefined])).toEqual(
          rows.map((row) => (row.headers === 'none' ? [{}, true] : [JSON.parse(row.headers), false])),
        )
        // With limits that some payloads exceed.
        const some = await read({ messages: 10, bytes })
        for (const messages of some) expect(messages).toEqual(some[0])
        const fitting = all[0]!.slice(0, 10)
        let total = 0
        const end = fitting.findIndex(({ payload }, n) => (total += payload.length) > bytes && n > 0)
        expect(some[0]).toEqual(end === -1 ? fitting : fitting.slice(0, end))
      },
    ),
    { seed: 20_26, numRuns: 60 },
  )
})
