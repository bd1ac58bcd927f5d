import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { NotifyBudget } from '../../packages/postgres/src/notify/notify-budget.ts'

function budgetAt(): { budget: NotifyBudget; clock: { now: number } } {
  const clock = { now: 0 }
  return { budget: new NotifyBudget(() => clock.now), clock }
}

test('U2 at most 20 transactions notify in any second, whatever they are about', () => {
  const steps = fc.array(fc.record({ pauseMs: fc.nat(120), kind: fc.nat(30) }), { maxLength: 400 })
  fc.assert(
    fc.property(steps, (all) => {
      const { budget, clock } = budgetAt()
      const taken: number[] = []
      for (const { pauseMs, kind } of all) {
        clock.now += pauseMs
        if (budget.take([String(kind)])) taken.push(clock.now)
      }
      for (const from of taken) {
        expect(taken.filter((at) => at >= from && at < from + 1000).length).toBeLessThanOrEqual(20)
      }
    }),
  )
})

test('U2 a message after a silence notifies, however many others of its process do', () => {
  const { budget, clock } = budgetAt()
  for (let at = 0; at < 10_000; at += 1) {
    clock.now = at
    budget.take(['busy'])
    if (at % 1500 === 0) expect(budget.take(['quiet'])).toBe(true)
  }
})

test('U2 of a stream, a transaction notifies about every 67 ms', () => {
  const { budget, clock } = budgetAt()
  let taken = 0
  for (let at = 0; at < 10_000; at += 1) {
    clock.now = at
    if (budget.take(['busy'])) taken += 1
  }
  expect(taken).toBeGreaterThan(140)
  expect(taken).toBeLessThan(160)
})

test('U2 kinds that were silent for long are forgotten, so that many queues take little memory', () => {
  const { budget, clock } = budgetAt()
  for (let n = 0; n < 5000; n += 1) {
    clock.now += 1000
    expect(budget.take([`queue ${n}`])).toBe(true)
  }
})
