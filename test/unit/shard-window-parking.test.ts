import { expect, test } from 'vitest'
import type { LocalMessage } from '@txbox/core/ports'
import { ShardWindow } from '../../packages/consumer/src/local/shard-window.ts'

/** A waiting message of the key `a`, behind a parked one. */
function waiting(seq: number): LocalMessage {
  return {
    ...{ seq: BigInt(seq), stamp: seq, in: 'waiting', id: `m${seq}`, key: 'a', ordered: true, blocked: true },
    ...{ attempts: 0, errors: undefined, isSuspect: false, undecodable: undefined, shard: 0 },
    ...{ type: 'made', topic: undefined, payload: new Uint8Array(2), headers: {}, correlationId: undefined },
    ...{ contentType: 'application/json', createdAt: new Date(0) },
  }
}

function read(window: ShardWindow, ...seqs: number[]): readonly string[] {
  window.mayHaveMore()
  const asked = window.nextRead(performance.now())
  if (asked === undefined) throw new Error('The window reads nothing.')
  const rows = window.add(asked, { messages: seqs.map(waiting), certain: undefined }, performance.now())
  return idsOf(rows)
}

function idsOf(rows: readonly { readonly message: LocalMessage }[]): readonly string[] {
  return rows.map(({ message }) => message.id)
}

test('L4 a message that is read while earlier ones of its key are being parked waits for them, and overtakes none that was locked', () => {
  const window = new ShardWindow({ messages: 500, bytes: 1_000_000 })
  window.mayHaveMore()
  const asked = window.nextRead(performance.now())!
  const first = window.add(
    asked,
    { messages: [waiting(2), waiting(3)], certain: undefined },
    performance.now(),
  )
  expect(idsOf(first)).toEqual(['m2', 'm3'])
  expect(read(window, 2, 3, 4)).toEqual([])
  const [lane, ...others] = window.parked(first, new Set(first.map(({ id }) => id)))
  expect(others).toEqual([])
  expect(window.take(9, { mayBegin: () => true, mayFollow: () => true })).toEqual([])
  expect(idsOf(window.resume(lane!))).toEqual(['m2', 'm3', 'm4'])
})

test('L4 messages that were read while earlier ones were parked are parked after them', () => {
  const window = new ShardWindow({ messages: 500, bytes: 1_000_000 })
  window.mayHaveMore()
  const asked = window.nextRead(performance.now())!
  const first = window.add(asked, { messages: [waiting(2)], certain: undefined }, performance.now())
  expect(read(window, 2, 4)).toEqual([])
  const [lane] = window.parked(first)
  expect(idsOf(window.resume(lane!))).toEqual(['m4'])
})
