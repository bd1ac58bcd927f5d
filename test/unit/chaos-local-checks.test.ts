import { expect, test } from 'vitest'
import type { Committed } from '../../chaos/check/history.ts'
import {
  checkLocalDeadLetters,
  checkLocalEffects,
  checkLocalOrder,
  checkLocalOverlap,
  earlyAtLocal,
} from '../../chaos/check/local-checks.ts'
import type { LocalEffect, LocalRecord } from '../../chaos/check/local-history.ts'
import { Draw } from '../../chaos/draw.ts'
import { beside, localBeside } from '../../chaos/faults/beside.ts'
import { LOCAL_CONSUMERS, type WorkerKind } from '../../chaos/workers/worker-protocol.ts'

const [bookings, totals] = LOCAL_CONSUMERS

function message(id: string, place: number | undefined, more: Partial<Committed> = {}) {
  const plain = { id, serial: place ?? 9, key: 'a', epoch: '1', place, producer: 'p' }
  return [id, { ...plain, deliverAtMs: undefined, ill: undefined, ...more }] as const
}

function effect(
  consumer: string,
  serial: number,
  id: string,
  place: number | undefined,
  more: Partial<LocalEffect> = {},
): LocalEffect {
  const times = { beganMs: serial * 10, endedMs: serial * 10 + 5 }
  return { consumer, serial, id, place, worker: 'w', call: `${consumer} ${serial}`, ...times, ...more }
}

const EFFECTS: readonly LocalEffect[] = [
  effect(bookings, 1, 'one', 1),
  effect(totals, 2, 'one', 1),
  effect(bookings, 3, 'two', 2),
  effect(totals, 4, 'two', 2),
]

/** A correct run: two messages of one key, handled one after the other by each consumer. */
function record(change: Partial<LocalRecord> = {}): LocalRecord {
  return {
    local: new Map([message('one', 1), message('two', 2)]),
    localEffects: EFFECTS,
    localDeadLetters: [],
    ...change,
  }
}

function violated(change: Partial<LocalRecord>): readonly string[] {
  const checks = [checkLocalEffects, checkLocalOrder, checkLocalOverlap, checkLocalDeadLetters]
  const found = checks.flatMap((check) => check(record(change)).violations.map((one) => one.check))
  return [...found, ...earlyAtLocal(record(change)).violations.map(() => 'scheduled')]
}

test('a correct run violates no check of local consumers, and each effect was looked at', () => {
  expect(violated({})).toEqual([])
  expect(checkLocalEffects(record()).looked).toBe(4)
  expect(checkLocalOrder(record()).looked).toBe(4)
})

const WRONG: readonly (readonly [string, Partial<LocalRecord>, readonly string[]])[] = [
  ['a message is lost at one of the consumers', { localEffects: EFFECTS.slice(0, 3) }, ['local effect']],
  [
    'a message takes effect twice at one consumer',
    { localEffects: [...EFFECTS, effect(totals, 5, 'two', 2)] },
    ['local effect'],
  ],
  [
    'a message was rolled back, or lost by a failover',
    { local: new Map([message('one', 1)]), localEffects: EFFECTS.slice(0, 3) },
    ['local effect'],
  ],
  [
    'a handler gets the payload of another message',
    { localEffects: [...EFFECTS.slice(0, 3), effect(totals, 4, 'two', 1)] },
    ['local effect'],
  ],
  [
    'a consumer handles messages in the wrong order',
    {
      localEffects: [
        effect(bookings, 1, 'two', 2),
        effect(bookings, 2, 'one', 1),
        effect(totals, 3, 'one', 1),
        effect(totals, 4, 'two', 2),
      ],
    },
    ['local order'],
  ],
  [
    'two messages of a key are handled at the same time',
    { localEffects: [effect(bookings, 1, 'one', 1, { endedMs: 30.1 }), ...EFFECTS.slice(1)] },
    ['local one at a time'],
  ],
  [
    'two messages of a key whose messages have no order are handled at the same time',
    {
      local: new Map([message('one', undefined), message('two', undefined)]),
      localEffects: [
        effect(bookings, 1, 'one', undefined, { endedMs: 30.1 }),
        effect(totals, 2, 'one', undefined),
        effect(bookings, 3, 'two', undefined),
        effect(totals, 4, 'two', undefined),
      ],
    },
    ['local one at a time'],
  ],
  [
    'an innocent message is a dead letter',
    { localDeadLetters: [{ consumer: totals, id: 'one', error: 'refused' }] },
    ['local dead letters'],
  ],
  [
    'a scheduled message comes early',
    { local: new Map([message('one', 1, { deliverAtMs: 15 }), message('two', 2)]) },
    ['scheduled'],
  ],
]

for (const [title, change, checks] of WRONG) {
  test(`${title}: ${checks.join(', ')}`, () => {
    expect(violated(change)).toEqual(checks)
  })
}

test('messages of a batch are handled together, and one at a time with all others', () => {
  const batch = { call: 'batch', beganMs: 20, endedMs: 45 }
  const together = [
    EFFECTS[0]!,
    EFFECTS[2]!,
    effect(totals, 2, 'one', 1, batch),
    effect(totals, 4, 'two', 2, batch),
  ]
  expect(violated({ localEffects: together })).toEqual([])
})

test('a dead letter that was redriven has no order at its consumer, and has one at the other', () => {
  const turned = (consumer: string) => [effect(consumer, 1, 'two', 2), effect(consumer, 2, 'one', 1)]
  const change = {
    local: new Map([message('one', 1, { ill: 'fail' }), message('two', 2)]),
    localDeadLetters: [{ consumer: totals, id: 'one', error: 'poison' }],
  }
  const [bookedOne, , bookedTwo] = EFFECTS
  expect(violated({ ...change, localEffects: [bookedOne!, bookedTwo!, ...turned(totals)] })).toEqual([])
  expect(violated({ ...change, localEffects: [EFFECTS[1]!, EFFECTS[3]!, ...turned(bookings)] })).toEqual([
    'local order',
  ])
})

test('a fault of a process hits each process of local consumers and each HTTP service at times, and none at others', () => {
  const fleet = { slotsOf: (kind: WorkerKind) => [`${kind}-1`, `${kind}-2`] }
  const local = ['', 'local-worker-1', 'local-worker-2']
  const both = Array.from({ length: 200 }, (_, seed) => beside(fleet, new Draw(`${seed}`)).join())
  const all = local.flatMap((one) =>
    ['', 'http-service-1', 'http-service-2'].map((two) => [one, two].filter(Boolean).join()),
  )
  expect(new Set(both)).toEqual(new Set(all))
  const hit = Array.from({ length: 100 }, (_, seed) => localBeside(fleet, new Draw(`${seed}`)).join())
  expect(new Set(hit)).toEqual(new Set(local))
})
