import { describe, expect, test } from 'vitest'
import type { Row } from '@txbox/sql/stores'
import { toMessages } from '../../packages/postgres/src/relay/backlog-message.ts'

const row = (seq: number, payload: string | number): Row => ({
  seq: String(seq),
  address: '(0,1)',
  id: String(seq),
  topic: 't',
  key: null,
  created_at: '0',
  ...(typeof payload === 'string'
    ? { payload, payload_bytes: null }
    : { payload: null, payload_bytes: String(payload) }),
})
const bytes = (length: number): string => '20'.repeat(length)

/** Payloads as text come along, those of so many bytes are only measured. `gone`: deleted before they are read. */
async function lengths(
  payloads: readonly (string | number)[],
  mostBytes: number,
  gone: readonly string[] = [],
) {
  const rows = payloads.map((payload, n) => row(n, payload))
  const asked: string[] = []
  const messages = await toMessages(rows, 0, mostBytes, async (seqs) => {
    asked.push(...seqs)
    return seqs
      .filter((seq) => !gone.includes(seq))
      .map((seq) => ({ seq, payload: bytes(Number(payloads[Number(seq)])) }))
  })
  return { asked, taken: messages.map(({ id, payload }) => [id, payload.length]) }
}

describe('rows of which only the payload sizes were read', () => {
  test('O13 as many rows are taken as fit, to the byte, and no other payload is read', async () => {
    const payloads = ['abc', 10, 20, '\\303\\244', 5]
    for (const [mostBytes, fitting] of [
      [12, 1],
      [13, 2],
      [32, 2],
      [33, 3],
      [34, 3],
      [35, 4],
      [39, 4],
      [40, 5],
    ] as const) {
      const { asked, taken } = await lengths(payloads, mostBytes)
      expect([mostBytes, taken]).toEqual([
        mostBytes,
        [
          ['0', 3],
          ['1', 10],
          ['2', 20],
          ['3', 2],
          ['4', 5],
        ].slice(0, fitting),
      ])
      expect(asked).toEqual(['1', '2', '4'].filter((seq) => Number(seq) < fitting))
    }
  })

  test('O13 the first row is taken, however large it is', async () => {
    expect((await lengths([50, 1], 10)).taken).toEqual([['0', 50]])
  })

  test('a row that is deleted before its payload is read is left out', async () => {
    expect((await lengths([5, 6, 'abc'], 100, ['0'])).taken).toEqual([
      ['1', 6],
      ['2', 3],
    ])
  })
})
