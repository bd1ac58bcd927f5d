import { array, assert, asyncProperty, constantFrom, integer } from 'fast-check'
import { expect, test } from 'vitest'
import type { DeadLetter, DeadLetterFilter, DeadLetterPage } from '@txbox/core'
import type { DeadLetterStore } from '@txbox/core/ports'
import { JoinedDeadLetterStore } from '../../packages/core/src/database/joined-dead-letters.ts'

const everything: DeadLetterFilter = {
  ids: undefined,
  topic: undefined,
  type: undefined,
  key: undefined,
  after: undefined,
}

const byBytes = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b))

/** A table of dead letters in memory, in the order of ids and places, that pages as the databases do. */
function tableOf(ids: readonly string[], consumer?: string): DeadLetterStore {
  const rows = ids
    .map((id, place) => ({ id, place }))
    .toSorted((a, b) => byBytes(a.id, b.id) || a.place - b.place)
  const gone = new Set<number>()
  const page = (filter: DeadLetterFilter, limit: number): DeadLetterPage => {
    const after = filter.after
    const found = rows.filter(({ id, place }) => {
      if (gone.has(place) || (filter.ids !== undefined && !filter.ids.includes(id))) return false
      if (after === undefined) return true
      const order = byBytes(id, after.id)
      return order > 0 || (order === 0 && after.place !== undefined && place > Number(after.place))
    })
    const messages = found.slice(0, limit)
    const last = messages.length < limit ? undefined : messages.at(-1)
    return {
      messages: messages.map(({ id, place }) => letter(id, place, consumer)),
      next: last && { id: last.id, place: String(last.place) },
    }
  }
  return {
    list: async (filter, limit) => page(filter, limit),
    async discard(filter, limit) {
      const found = page(filter, limit)
      for (const { attempts } of found.messages) gone.add(attempts)
      return found
    },
  } as Partial<DeadLetterStore> as DeadLetterStore
}

/** The attempts are the place. */
function letter(id: string, place: number, consumer: string | undefined): DeadLetter {
  const at = new Date(0)
  const ofConsumer = consumer === undefined ? {} : { consumer }
  return { id, contentType: '', createdAt: at, deadAt: at, attempts: place, error: '', ...ofConsumer }
}

const nameOf = ({ id, consumer = '', attempts }: DeadLetter): string => `${id}/${consumer}/${attempts}`

const ids = array(constantFrom('a', 'b', 'c', 'd', '\uFB01', '\u{1F4E6}'), { maxLength: 12 })

test('the pages of a list are all dead letters of both once, in the order of ids, whatever the limit', async () => {
  await assert(
    asyncProperty(ids, ids, integer({ min: 1, max: 5 }), async (outbox, local, limit) => {
      const store = new JoinedDeadLetterStore(tableOf(outbox), tableOf(local, 'c'))
      const expected = [
        ...outbox.map((id, place) => letter(id, place, undefined)),
        ...local.map((id, place) => letter(id, place, 'c')),
      ].toSorted(
        (a, b) =>
          byBytes(a.id, b.id) ||
          (a.consumer ?? '').localeCompare(b.consumer ?? '') ||
          a.attempts - b.attempts,
      )
      const all: DeadLetter[] = []
      for (let after: DeadLetterFilter['after']; ;) {
        const { messages, next } = await store.list({ ...everything, after }, limit)
        all.push(...messages)
        if (next === undefined) break
        expect(messages.length).toBeGreaterThanOrEqual(limit)
        after = next
      }
      expect(all.map(nameOf)).toEqual(expected.map(nameOf))
    }),
  )
})

test('a change goes through the outbox and then through the local consumers, each message once', async () => {
  await assert(
    asyncProperty(ids, ids, integer({ min: 1, max: 5 }), async (outbox, local, limit) => {
      const store = new JoinedDeadLetterStore(tableOf(outbox), tableOf(local, 'c'))
      const all: DeadLetter[] = []
      for (let after: DeadLetterFilter['after']; ;) {
        const { messages, next } = await store.discard({ ...everything, after }, limit)
        expect(messages.length).toBeLessThanOrEqual(limit)
        all.push(...messages)
        if (next === undefined) break
        after = next
      }
      expect(all.map(nameOf).toSorted()).toEqual(
        [
          ...outbox.map((id, place) => letter(id, place, undefined)),
          ...local.map((id, place) => letter(id, place, 'c')),
        ]
          .map(nameOf)
          .toSorted(),
      )
    }),
  )
})

test('a consumer selects the local part alone', async () => {
  const store = new JoinedDeadLetterStore(tableOf(['a']), tableOf(['a'], 'c'))
  const { messages } = await store.list({ ...everything, consumer: 'c' }, 10)
  expect(messages.map(nameOf)).toEqual(['a/c/0'])
})
