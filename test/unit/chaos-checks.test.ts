import { shardOf } from '@txbox/core/internal'
import { expect, test } from 'vitest'
import { judge } from '../../chaos/check/checks.ts'
import type { Evidence } from '../../chaos/check/evidence.ts'
import type { Committed } from '../../chaos/check/history.ts'
import type { QueueEffect } from '../../chaos/check/queue-history.ts'
import type { CheckName } from '../../chaos/check/violation.ts'
import type { Copy } from '../../chaos/driver/recorder.ts'
import { held } from '../../chaos/report/table.ts'

const LEASE_MS = 2000
const SHARD = shardOf('a')

function message(id: string, place: number) {
  return [
    id,
    { id, serial: place, key: 'a', epoch: '1', place, deliverAtMs: undefined, ill: undefined, producer: 'p' },
  ] as const
}

/** A message of a key whose messages have no order. */
function withoutPlace(id: string, serial: number) {
  return [id, { ...message(id, serial)[1], place: undefined }] as const
}

function copy(at: number, id: string, more: Partial<Copy> = {}): Copy {
  const ms = 100_000 + at * 10
  return { at, id, key: 'a', relay: 'relay-1.1', calledAtMs: ms, recordedAtMs: ms + 5, digest: 'd', ...more }
}

/** An effect of a message of the queue. */
function queueEffect(
  serial: number,
  id: string,
  place: number | undefined,
  more: Partial<QueueEffect> = {},
): QueueEffect {
  return { serial, id, place, worker: 'w', beganMs: serial * 10, endedMs: serial * 10 + 5, ...more }
}

/**
 * A correct run: two messages of one key, published in order, each with its claim and its effect; and two messages of the
 * queue, handled one after the other.
 */
function evidence(change: Partial<Evidence> = {}): Evidence {
  const copies = change.copies ?? [copy(0, 'one'), copy(1, 'two')]
  const first = new Map<string, Copy>()
  for (const one of copies) if (!first.has(one.id)) first.set(one.id, one)
  return {
    leaseMs: LEASE_MS,
    batchSize: 20,
    committed: new Map([message('one', 1), message('two', 2)]),
    lost: new Map(),
    sends: [
      { request: 'r', id: 'one', newId: 'one' },
      { request: 'r', id: 'one', newId: 'other' },
    ],
    effects: [
      { serial: 1, id: 'one', worker: 'c' },
      { serial: 2, id: 'two', worker: 'c' },
    ],
    claims: ['one', 'two'],
    applied: [
      { versionKey: 'a@1', from: 0, id: 'one' },
      { versionKey: 'a@1', from: 1, id: 'two' },
    ],
    balances: new Map([['a@1', { version: 2, total: 2 }]]),
    queued: new Map([message('first', 1), message('second', 2)]),
    queueLost: new Map(),
    queueEffects: [queueEffect(1, 'first', 1), queueEffect(2, 'second', 2)],
    queueDeadLetters: [],
    stuckKeys: [],
    local: new Map(),
    localLost: new Map(),
    localEffects: [],
    localDeadLetters: [],
    httpCalls: [],
    httpEffects: [],
    httpLost: [],
    httpResponses: [],
    charges: [],
    leasedResponses: [],
    httpStandstills: [],
    left: [],
    leaseChanges: [{ atMs: 0, shard: SHARD, owner: 'relay-1.1' }],
    unfenced: [],
    kills: [],
    deadLetters: [],
    consumerDeadLetters: [],
    relayDeaths: [],
    failovers: [],
    timeline: [],
    standstills: [],
    resources: [],
    unclean: [],
    ...change,
    copies,
    first,
  }
}

function violated(change: Partial<Evidence>): readonly CheckName[] {
  return judge(evidence(change)).flatMap(({ check, violations }) => (violations.length > 0 ? [check] : []))
}

test('a correct run violates no check', () => {
  expect(violated({})).toEqual([])
})

const [id2, two] = message('two', 2)

const WRONG: readonly (readonly [string, Partial<Evidence>, readonly CheckName[]])[] = [
  [
    'a message is lost',
    { copies: [copy(0, 'one')], effects: [{ serial: 1, id: 'one', worker: 'c' }], claims: ['one'] },
    ['published'],
  ],
  ['a message was rolled back', { committed: new Map([message('one', 1)]) }, ['rolled back']],
  [
    'a request is stored twice',
    {
      sends: [
        { request: 'r', id: 'one', newId: 'one' },
        { request: 'r', id: 'two', newId: 'two' },
      ],
    },
    ['deduplicated'],
  ],
  [
    'a duplicate send names another message',
    {
      sends: [
        { request: 'r', id: 'one', newId: 'one' },
        { request: 'r', id: 'two', newId: 'other' },
      ],
    },
    ['deduplicated'],
  ],
  [
    'a send is called a duplicate of a message that nobody stored',
    { sends: [{ request: 'r', id: 'one', newId: 'other' }] },
    ['deduplicated'],
  ],
  [
    'a copy has other bytes',
    { copies: [copy(0, 'one'), copy(1, 'two'), copy(2, 'one', { digest: 'x' })] },
    ['same bytes'],
  ],
  ['first copies come in the wrong order', { copies: [copy(0, 'two'), copy(1, 'one')] }, ['order']],
  [
    'a message takes effect twice',
    { effects: ['one', 'two', 'two'].map((id, serial) => ({ id, serial, worker: 'c' })) },
    ['one effect'],
  ],
  [
    'a message has no effect',
    { effects: [{ serial: 1, id: 'one', worker: 'c' }] },
    ['one effect', 'claim and effect'],
  ],
  ['an effect has no claim', { claims: ['one'] }, ['claim and effect']],
  [
    'the version buffer leaves a change out',
    { applied: [{ versionKey: 'a@1', from: 1, id: 'two' }] },
    ['version order'],
  ],
  [
    'a versioned row has missed a change',
    { balances: new Map([['a@1', { version: 2, total: 1 }]]) },
    ['version order'],
  ],
  ['a message of the queue is lost', { queueEffects: [queueEffect(1, 'first', 1)] }, ['queue effect']],
  [
    'a message of the queue takes effect twice',
    {
      queueEffects: [queueEffect(1, 'first', 1), queueEffect(2, 'second', 2), queueEffect(3, 'second', 2)],
    },
    ['queue effect'],
  ],
  ['a message of the queue was rolled back', { queued: new Map([message('first', 1)]) }, ['queue effect']],
  [
    'a message of the queue has the payload of another',
    { queueEffects: [queueEffect(1, 'first', 2), queueEffect(2, 'second', 2)] },
    ['queue effect'],
  ],
  [
    'messages of the queue are handled in the wrong order',
    { queueEffects: [queueEffect(1, 'second', 2), queueEffect(2, 'first', 1)] },
    ['queue order'],
  ],
  [
    'two messages of a key of the queue are handled at the same time',
    {
      queueEffects: [queueEffect(1, 'first', 1, { endedMs: 20.1 }), queueEffect(2, 'second', 2)],
    },
    ['one at a time'],
  ],
  [
    'two messages of a key whose messages have no order are handled at the same time',
    {
      queued: new Map([withoutPlace('first', 1), withoutPlace('second', 2)]),
      queueEffects: [
        queueEffect(1, 'first', undefined, { endedMs: 20.1 }),
        queueEffect(2, 'second', undefined),
      ],
    },
    ['one at a time'],
  ],
  [
    'no receiver will look at a key of the queue',
    { stuckKeys: [{ key: 'a', messages: 1, id: 'second' }] },
    ['stuck key'],
  ],
  [
    'an innocent message of the queue is a dead letter',
    { queueDeadLetters: [{ id: 'second', error: 'refused' }] },
    ['queue dead letters'],
  ],
  [
    'a consumer gives an innocent message up',
    { consumerDeadLetters: [{ id: 'two', error: 'refused' }] },
    ['consumer dead letters'],
  ],
  [
    'a consumer gives up what only relays suffer from',
    {
      committed: new Map<string, Committed>([message('one', 1), [id2, { ...two, ill: 'kills-relay' }]]),
      consumerDeadLetters: [{ id: 'two', error: 'refused' }],
    },
    ['consumer dead letters'],
  ],
  ['a lease is still held', { left: [{ text: 'The lease …' }] }, ['nothing left']],
  [
    'a relay publishes what another holds',
    {
      leaseChanges: [
        { atMs: 0, shard: SHARD, owner: 'relay-1.1' },
        { atMs: 50_000, shard: SHARD, owner: 'relay-2.1' },
      ],
    },
    ['one owner'],
  ],
  [
    'a relay settles what another holds',
    { unfenced: [{ atMs: 0, shard: SHARD, id: 'one', owner: 'relay-2.1', settledBy: 'relay-1.1' }] },
    ['fence'],
  ],
  [
    'a message kills relays without end',
    { kills: Array.from({ length: 40 }, () => 'one') },
    ['killing message'],
  ],
  [
    'the same batch is published again and again',
    {
      copies: [copy(0, 'one'), copy(1, 'two'), ...Array.from({ length: 200 }, (_, n) => copy(n + 2, 'one'))],
    },
    ['duplicates'],
  ],
  [
    'an innocent message is a dead letter',
    { deadLetters: [{ id: 'one', error: 'refused' }] },
    ['dead letters'],
  ],
  ['a shard stands still', { standstills: ['Shard 1 …'] }, ['standstill']],
  ['memory grows', { resources: ['relay-1 needed …'] }, ['resources']],
  ['a process crashes', { unclean: ['relay-1.1 ended with code 70'] }, ['clean end']],
]

for (const [title, change, checks] of WRONG) {
  test(`${title}: ${checks.join(', ')}`, () => {
    expect(violated(change)).toEqual(checks)
  })
}

test('a dead letter that was redriven has no order', () => {
  const copies = [copy(0, 'two'), copy(1, 'one')]
  const queueFull = { kind: 'fault' as const, name: 'queue-full', text: '', fromMs: 0, toMs: 60_000 }
  const deadLetters = [{ id: 'one', error: 'refused' }]
  expect(violated({ copies, deadLetters, timeline: [queueFull] })).toEqual([])
  expect(violated({ copies, timeline: [queueFull] })).toEqual(['order'])
})

test('a check without any observations does not count as passed', () => {
  const verdicts = [
    { looked: 7, violations: [] },
    { looked: 0, violations: [] },
  ]
  expect(held(verdicts)).toBe('1 checks hold, 1 had nothing to look at')
})

test('a scheduled message that is published early is found', () => {
  const [id, scheduled] = message('one', 1)
  const committed = new Map<string, Committed>([
    [id, { ...scheduled, deliverAtMs: 200_000 }],
    message('two', 2),
  ])
  expect(violated({ committed })).toEqual(['scheduled'])
})

test('a scheduled message of the queue that is handled early is found', () => {
  const [id, scheduled] = message('first', 1)
  const queued = new Map<string, Committed>([[id, { ...scheduled, deliverAtMs: 500 }], message('second', 2)])
  expect(violated({ queued })).toEqual(['scheduled'])
})

test('a dead letter of the queue that was redriven has no order, and a message that always fails may become a dead letter', () => {
  const queueEffects = [queueEffect(1, 'second', 2), queueEffect(2, 'first', 1)]
  const [id, ill] = message('first', 1)
  const queued = new Map<string, Committed>([[id, { ...ill, ill: 'throw' }], message('second', 2)])
  expect(violated({ queued, queueEffects, queueDeadLetters: [{ id, error: 'poison' }] })).toEqual([])
  expect(violated({ queued, queueEffects })).toEqual(['queue order'])
})

test('a message that always fails may become a dead letter of a consumer', () => {
  const committed = new Map<string, Committed>([message('one', 1), [id2, { ...two, ill: 'fail' }]])
  expect(violated({ committed, consumerDeadLetters: [{ id: id2, error: 'poison' }] })).toEqual([])
})

test('a message of the queue that a failover lost has no effect', () => {
  const queueLost = new Map([message('second', 2)])
  const queued = new Map([message('first', 1)])
  expect(violated({ queued, queueLost, queueEffects: [queueEffect(1, 'first', 1)] })).toEqual([])
  expect(violated({ queued, queueLost })).toEqual(['queue effect'])
})

test('a message that a failover lost may be published, but need not be', () => {
  const lost = new Map([message('two', 2)])
  const committed = new Map([message('one', 1)])
  expect(violated({ committed, lost })).toEqual([])
  const without = {
    effects: [{ serial: 1, id: 'one', worker: 'c' }],
    claims: ['one'],
    copies: [copy(0, 'one')],
  }
  expect(violated({ committed, lost, ...without })).toEqual([])
})
