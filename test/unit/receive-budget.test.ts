import { expect, test, vi } from 'vitest'
import { RECEIVED_BYTES, ReceiveBudget } from '../../packages/sql/src/stores/queue/receive-budget.ts'

const REQUEST = { limit: 3, visibilityTimeoutMs: 40_000 }

test('Q4 a receive returns as soon as it has as many messages as it may, and each round gets what is left', () => {
  const budget = new ReceiveBudget(REQUEST)
  expect(budget.bounds).toEqual({ limit: 3, bytes: RECEIVED_BYTES, alone: true })
  expect(budget.isSpent).toBe(false)
  budget.spend(10, false)
  budget.spend(0, false)
  expect(budget.bounds).toEqual({ limit: 1, bytes: RECEIVED_BYTES - 10, alone: false })
  expect(budget.isSpent).toBe(false)
  budget.spend(10, false)
  expect(budget.isSpent).toBe(true)
})

test('the bounds of a round stay as they were while its messages are counted, so that the round can be repeated', () => {
  const budget = new ReceiveBudget(REQUEST)
  const { bounds } = budget
  budget.spend(10, true)
  expect(bounds).toEqual({ limit: 3, bytes: RECEIVED_BYTES, alone: true })
})

test('a receive returns when its payloads have used up its bytes, and a single one may be larger', () => {
  const budget = new ReceiveBudget(REQUEST, { bytes: 100, alone: true })
  budget.spend(99, false)
  expect(budget.isSpent).toBe(false)
  budget.spend(1, false)
  expect(budget.isSpent).toBe(true)
  const large = new ReceiveBudget(REQUEST, { bytes: 100, alone: true })
  large.spend(1000, false)
  expect(large.isSpent).toBe(true)
})

test('Q10 a receive returns a suspect at once', () => {
  const budget = new ReceiveBudget(REQUEST)
  budget.spend(0, true)
  expect([budget.hasSuspect, budget.isSpent]).toEqual([true, true])
})

test('a receive with messages returns after a quarter of the visibility timeout, and one without goes on', () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  try {
    const budget = new ReceiveBudget(REQUEST)
    vi.advanceTimersByTime(10_001)
    expect(budget.isSpent).toBe(false)
    budget.spend(1, false)
    expect(budget.isSpent).toBe(true)
    const quick = new ReceiveBudget(REQUEST)
    quick.spend(1, false)
    vi.advanceTimersByTime(9999)
    expect(quick.isSpent).toBe(false)
  } finally {
    vi.useRealTimers()
  }
})
