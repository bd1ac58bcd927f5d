import { expect, test } from 'vitest'
import type { Publisher } from '@txbox/core'
import { PublisherState, endChecks } from '@txbox/core/internal'

function publisherOf(more: Partial<Publisher> = {}): { publisher: Publisher; checks: () => number } {
  let checks = 0
  const publisher: Publisher = {
    ordering: 'none',
    publish: async () => [],
    check: async () => void checks++,
    ...more,
  }
  return { publisher, checks: () => checks }
}

test('a publisher is not checked after the end of its checks, by any of its states', async () => {
  const { publisher, checks } = publisherOf({ close: async () => undefined })
  const states = [new PublisherState(publisher), new PublisherState(publisher)]
  await endChecks(publisher)
  for (const state of states) expect(state.isUp()).toBeUndefined()
  expect(checks()).toBe(0)
})

test('a publisher that nobody closes is checked for its other users after the end of one relay', async () => {
  const { publisher, checks } = publisherOf()
  const other = new PublisherState(publisher)
  await endChecks(publisher)
  other.isUp()
  await other.checking
  expect([checks(), other.isUp()]).toEqual([1, true])
})

test('a check in flight at the end is aborted and waited for, and what it finds does not count', async () => {
  const { publisher } = publisherOf({
    close: async () => undefined,
    check: ({ signal }) => new Promise((resolve) => signal.addEventListener('abort', () => resolve())),
  })
  const state = new PublisherState(publisher)
  state.isUp()
  await endChecks(publisher)
  expect(state.checking).toBeUndefined()
  expect(state.isUp()).toBeUndefined()
})
