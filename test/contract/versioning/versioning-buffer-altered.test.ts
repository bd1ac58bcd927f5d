import { expect, test } from 'vitest'
import type { TransactionHandle } from '@txbox/core'
import { createVersionBuffer, type BufferedDeadLetter, type VersionBuffer } from '@txbox/versioning'
import { useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const root = useRoot(target, target.kinds[0]!)
const waiting = target.engine === 'postgres' ? 'txbox.waiting' : 'txbox_waiting'

interface Subject {
  readonly buffer: VersionBuffer<TransactionHandle>
  readonly applied: number[]
  readonly dead: BufferedDeadLetter[]
  deliver(from: number): Promise<{ status: string }>
}

function subject(maxAgeMs = 60_000): Subject {
  const applied: number[] = []
  const dead: BufferedDeadLetter[] = []
  const buffer = createVersionBuffer<TransactionHandle>({
    database: root.database,
    consumer: `c${Math.random()}`,
    maxAgeMs,
    apply: (_tx, { to }) => void applied.push(to),
    onDeadLetter: (event) => void dead.push(event),
  })
  const deliver = (from: number) =>
    root.database.transact((tx) => buffer.process(tx, { key: 'k', from, to: from + 1, payload: {} }))
  return { buffer, applied, dead, deliver }
}

async function alter({ buffer }: Subject, column: string, value: string): Promise<void> {
  await target.sql(`update ${waiting} set ${column} = ? where consumer = ?`, [value, buffer.consumer])
}

test.for([
  ['payload', 'secret, and no JSON'],
  ['to_version', '-5'],
  ['to_version', '9223372036854775807'],
] as const)(
  'a waiting message whose %s was altered to %s is a dead letter, and its predecessor is applied',
  async ([column, value]) => {
    const it = subject()
    expect((await it.deliver(1)).status).toBe('waiting')
    await alter(it, column, value)
    expect(await it.deliver(0)).toEqual({ status: 'applied', version: 1, followed: 0 })
    expect([it.applied, it.dead.map(({ reason }) => reason)]).toEqual([[1], ['unreadable']])
    expect(await it.buffer.deadLetters()).toMatchObject([{ reason: 'unreadable', message: { from: '1' } }])
    expect(await it.buffer.discard('k', 1)).toBe(true)
    expect(await it.deliver(1)).toMatchObject({ status: 'applied', version: 2 })
  },
)

test('a sweep skips undecodable messages, and a redrive of such a message is refused', async () => {
  const it = subject(1)
  await it.deliver(1)
  await alter(it, 'payload', '{')
  await expect.poll(async () => (await it.buffer.sweep()).deadLettered + it.dead.length).toBeGreaterThan(0)
  expect(it.dead).toMatchObject([{ reason: 'too-old', message: { payload: '{' } }])
  await it.deliver(0)
  await expect(it.buffer.redrive('k', 1)).rejects.toMatchObject({ code: 'TXBOX_INVALID_MESSAGE' })
  expect(await it.buffer.deadLetters()).toHaveLength(1)
})

test('a dead letter that was restored by hand does not take the count of waiting messages below 0', async () => {
  const it = subject(1)
  await it.deliver(1)
  await expect.poll(async () => (await it.buffer.sweep()).deadLettered + it.dead.length).toBeGreaterThan(0)
  await target.sql(`update ${waiting} set dead_at = null where consumer = ?`, [it.buffer.consumer])
  expect(await it.buffer.sweep()).toEqual({ deadLettered: 1 })
  expect((await it.deliver(0)).status).toBe('applied')
})
