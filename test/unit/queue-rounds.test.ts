import { expect, test } from 'vitest'
import {
  expiredFlights,
  firstLook,
  nextLook,
  queueRound,
  type QueueCandidate,
} from '../../packages/sql/src/stores/queue/queue-rounds.ts'

const LIMITS = { limit: 10, bytes: 100, maxReceives: 3, alone: true }

/** The first message of a key that has no message in flight. */
function candidate(place: string, how: Partial<QueueCandidate> = {}): QueueCandidate {
  return {
    place,
    orderKey: `key of ${place}`,
    receives: 0,
    timeouts: 0,
    first: place,
    flight: undefined,
    isFlightLive: false,
    bytes: 1,
    ...how,
  }
}

const round = (candidates: readonly QueueCandidate[], unlocked: readonly string[] = [], how = LIMITS) => {
  const { taken, buried, putBack, released } = queueRound(candidates, new Set(unlocked), how)
  const places = (of: readonly QueueCandidate[]): readonly string[] => of.map(({ place }) => place)
  return { taken: places(taken), buried: places(buried), putBack, released }
}

test('Q3 a message waits behind the first message of its key, or behind the message of its key that is in flight', () => {
  const head = candidate('1', { orderKey: 'a', first: '1' })
  const follower = candidate('2', { orderKey: 'a', first: '1' })
  expect(round([head, follower])).toEqual({ taken: ['1'], buried: [], putBack: ['2'], released: [] })
  expect(round([follower])).toEqual({ taken: [], buried: [], putBack: ['2'], released: ['a'] })
  const busy = candidate('1', { orderKey: 'a', flight: '2', isFlightLive: true })
  expect(round([busy])).toEqual({ taken: [], buried: [], putBack: ['1'], released: ['a'] })
  const none = candidate('3', { orderKey: undefined, first: undefined })
  expect(round([none]).taken).toEqual(['3'])
})

test('Q8 a receipt that has expired blocks its key while its row is locked, and is withdrawn before the key goes on', () => {
  const head = candidate('1', { orderKey: 'a', flight: '2' })
  const itself = candidate('3', { flight: '3', timeouts: 1 })
  expect(expiredFlights([head, itself, candidate('4', { flight: '5', isFlightLive: true })])).toEqual(['2'])
  expect(round([head])).toEqual({ taken: [], buried: [], putBack: ['1'], released: ['a'] })
  expect(round([head], ['2'])).toEqual({ taken: ['1'], buried: [], putBack: ['2'], released: [] })
  expect(round([itself]).taken).toEqual(['3'])
})

test('Q10 a message that was received too often is buried, and a suspect is handed out alone', () => {
  const often = candidate('1', { receives: 3 })
  const suspect = candidate('2', { timeouts: 2 })
  const other = candidate('3', { timeouts: 1, receives: 2 })
  expect(round([often, other])).toEqual({ taken: ['3'], buried: ['1'], putBack: [], released: ['key of 1'] })
  expect(round([suspect, other]).taken).toEqual(['2'])
  expect(round([other, suspect]).taken).toEqual(['3'])
  expect(round([suspect, other], [], { ...LIMITS, alone: false }).taken).toEqual(['3'])
  expect(round([suspect], [], { ...LIMITS, alone: false }).taken).toEqual([])
})

test.each([
  [1, 1],
  [2, 1],
  [3, 2],
  [10, 2],
])('Q10 with maxReceives %d, a message is a suspect after %d timeouts', (maxReceives, timeouts) => {
  const handedOut = (count: number): readonly string[] =>
    round([candidate('1', { timeouts: count }), candidate('2')], [], { ...LIMITS, maxReceives }).taken
  expect(handedOut(timeouts - 1)).toEqual(['1', '2'])
  expect(handedOut(timeouts)).toEqual(['1'])
})

test('Q13 a receive looks at ten messages, or at its limit if that is greater, and then at ten times as many, up to a thousand', () => {
  expect([firstLook(1), firstLook(50), firstLook(5000)]).toEqual([10, 50, 1000])
  expect([nextLook(10), nextLook(200)]).toEqual([100, 1000])
  expect(round([candidate('1'), candidate('2')], [], { ...LIMITS, limit: 1 }).taken).toEqual(['1'])
})

test('Q13 a receive hands out payloads as far as they fit, and always the first payload', () => {
  const large = candidate('1', { bytes: 101 })
  const [half, rest] = [candidate('2', { bytes: 60 }), candidate('3', { bytes: 40 })]
  expect(round([half, rest, candidate('4')]).taken).toEqual(['2', '3'])
  expect(round([half, large, rest]).taken).toEqual(['2'])
  expect(round([large, half]).taken).toEqual(['1'])
  expect(round([large, half], [], { ...LIMITS, alone: false }).taken).toEqual([])
})
