import { stateMachine, type StateMachine } from '@txbox/versioning'
import { isTxboxError } from '@txbox/core'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { useTarget } from '../../support/engines/target.ts'
import { useVersionedTables } from '../../support/subjects/versioned-tables.ts'
import { onEachHalfAtOneLevel } from '../../support/subjects/versioning-under-test.ts'

const target = useTarget()
const tables = useVersionedTables(target)
const runs = { numRuns: 25, endOnFailure: true }

/** A chain of versions with jumps: 1 → 2 → 5 → … */
const chain = fc
  .array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 8 })
  .map((jumps) => [0, ...jumps].map((_, n) => 1 + jumps.slice(0, n).reduce((sum, jump) => sum + jump, 0)))

/** Indexes of a list, each once or more, in any order. */
function shuffled(length: number): fc.Arbitrary<number[]> {
  const places = Array.from({ length }, (_, n) => n)
  return fc
    .array(fc.integer({ min: 0, max: length - 1 }), { maxLength: length })
    .chain((more) => fc.shuffledSubarray([...places, ...more], { minLength: length + more.length }))
}

/** Delivers as a broker does: after a retryable error again, at the end of the queue. @returns the outcomes */
async function deliverAll(
  order: readonly number[],
  apply: (n: number) => Promise<string>,
): Promise<string[]> {
  const outcomes: string[] = []
  const queue = [...order]
  for (let deliveries = 0; queue.length > 0; deliveries++) {
    if (deliveries > 1000) throw new Error('it never ends')
    const n = queue.shift()!
    try {
      outcomes.push(await apply(n))
    } catch (error) {
      if (!isTxboxError(error) || !error.retryable) throw error
      queue.push(n)
    }
  }
  return outcomes
}

onEachHalfAtOneLevel(target, (subject) => {
  test('V2 V3 any shuffle with duplicates of a chain ends in the state of the chain, each change applied once', async () => {
    const course = chain.chain((versions) => fc.tuple(fc.constant(versions), shuffled(versions.length - 1)))
    const property = fc.asyncProperty(course, async ([versions, order]) => {
      const id = await tables.order({ version: 1 })
      const outcomes = await deliverAll(order, async (n) => {
        const [from, to] = [versions[n]!, versions[n + 1]!]
        // A state that depends on the order: all places so far, as the digits of a number.
        const total = ((await tables.read(id))?.total ?? 0) * 10 + n + 1
        const options = { where: { id }, from, to, set: { total } }
        return (await subject.applyVersion(subject.db, 'orders', options)).status
      })
      expect(outcomes.filter((status) => status === 'applied')).toHaveLength(versions.length - 1)
      const expected = Array.from({ length: versions.length - 1 }, (_, n) => n).reduce(
        (all, n) => all * 10 + n + 1,
        0,
      )
      expect(await tables.read(id)).toMatchObject({ total: expected, version: String(versions.at(-1)) })
    })
    await fc.assert(property, runs)
  })

  test('V4 any shuffle with duplicates ends with the newest change', async () => {
    const microseconds = fc.uniqueArray(fc.integer({ min: 0, max: 999_999 }), { minLength: 1, maxLength: 8 })
    const course = microseconds.chain((times) => fc.tuple(fc.constant(times), shuffled(times.length)))
    const property = fc.asyncProperty(course, fc.boolean(), async ([times, order], inserts) => {
      const existing = await tables.order()
      const id = inserts ? `${existing}-new` : existing
      for (const n of order) {
        await subject.applyIfNewer(subject.db, 'orders', {
          where: { id },
          column: 'updated_at',
          at: `2026-01-01T00:00:00.${String(times[n]).padStart(6, '0')}Z`,
          set: { total: times[n]! },
          insert: inserts ? { id, total: times[n]!, version: 1, updated_at: null } : undefined,
        })
      }
      expect(await tables.read(id)).toMatchObject({ total: Math.max(...times) })
    })
    await fc.assert(property, runs)
  })

  test('V6 any shuffle with duplicates of a linear sequence of moves ends in its last state', async () => {
    const states = ['s0', 's1', 's2', 's3', 's4', 's5']
    const machine: StateMachine<string> = stateMachine(
      Object.fromEntries(states.map((state, n) => [state, states.slice(n + 1, n + 2)])),
    )
    const move = (id: string, to: string) =>
      subject.transition(subject.db, 'orders', { where: { id }, column: 'status', to, machine })
    const property = fc.asyncProperty(shuffled(states.length - 1), async (order) => {
      const id = await tables.order({ status: 's0' })
      const outcomes = await deliverAll(order, async (n) => (await move(id, `s${n + 1}`)).status)
      expect(outcomes.filter((status) => status === 'applied')).toHaveLength(states.length - 1)
      expect(await tables.read(id)).toMatchObject({ status: 's5' })
    })
    await fc.assert(property, runs)
  })
})
