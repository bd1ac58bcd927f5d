import { expect, test } from 'vitest'
import type { BacklogMessage } from '@txbox/core/ports'
import type { Refused } from '../../packages/relay/src/turns/refusals.ts'
import { parkedSettlement } from '../../packages/relay/src/turns/parked-settlement.ts'

function message(seq: number, key: string | undefined, ordered = key !== undefined): BacklogMessage {
  return { seq: BigInt(seq), key, ordered } as BacklogMessage
}

function refused(what: BacklogMessage, retryInMs: number | undefined): Refused {
  const refusal = { row: what, attempts: 1, error: 'no', errors: undefined, retryInMs, suspect: false }
  return { message: what, error: 'no', refusal }
}

test('O4 a key continues after its last settled message, in whatever order the results arrive', () => {
  const accepted = [message(7, 'a'), message(3, 'b'), message(9, 'a'), message(8, 'a')]
  expect(parkedSettlement(accepted, [])).toEqual({
    accepted,
    refused: [],
    released: [
      { key: 'a', after: 9n },
      { key: 'b', after: 3n },
    ],
  })
})

test('O4 a key does not continue while its message is tried again', () => {
  const head = refused(message(8, 'a'), 5)
  const accepted = [message(7, 'a'), message(3, 'b')]
  expect(parkedSettlement(accepted, [head])).toEqual({
    accepted,
    refused: [head.refusal],
    released: [{ key: 'b', after: 3n }],
  })
})

test('O5 a dead message counts as settled', () => {
  const dead = refused(message(8, 'a'), undefined)
  expect(parkedSettlement([message(7, 'a')], [dead]).released).toEqual([{ key: 'a', after: 8n }])
})

test('O11 a scheduled message, or a message without a key, neither releases nor blocks a key', () => {
  const scheduled = message(5, 'a', false)
  expect(parkedSettlement([scheduled, message(6, undefined)], []).released).toEqual([])
  expect(parkedSettlement([message(4, 'a')], [refused(scheduled, 5)]).released).toEqual([
    { key: 'a', after: 4n },
  ])
})
