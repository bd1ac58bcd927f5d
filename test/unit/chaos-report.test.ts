import { expect, test } from 'vitest'
import { CHECKS, type CheckName } from '../../chaos/check/violation.ts'
import type { RunResult } from '../../chaos/driver/finish.ts'
import { toHtml } from '../../chaos/report/html.ts'
import { formatResult } from '../../chaos/report/table.ts'
import { ticks } from '../../chaos/report/timeline-svg.ts'

const NAMES = Object.keys(CHECKS) as CheckName[]

function result(more: Partial<RunResult> = {}): RunResult {
  return {
    options: {
      database: 'mysql',
      minutes: 1,
      seed: 7,
      faults: ['kill'],
      without: new Set(),
      plant: undefined,
      keep: false,
      onEvent: () => undefined,
      signal: new AbortController().signal,
    },
    settings: { leaseMs: 1500, batchSize: 5, publishTimeoutMs: 15_000 },
    steps: 1,
    startedAtMs: 0,
    durationMs: 61_000,
    verdicts: NAMES.map((check, index) => ({ check, looked: index, violations: [] })),
    first: undefined,
    foundAfterMs: undefined,
    history: [],
    figures: {
      committed: 12_345,
      published: 12_345,
      copies: 12_346,
      duplicates: 1,
      effects: 12_345,
      extraDeliveries: 0,
      lostByFailover: 0,
      effectsLostByFailover: 0,
      deadLetters: 53,
      consumerDeadLetters: 31,
      longestStandstillMs: 1000,
      longestStandstillAt: 'outbox 9',
      queueCommitted: 6789,
      queueEffects: 6789,
      queueLostByFailover: 4,
      queueEffectsLostByFailover: 17,
      queueDeadLetters: 29,
      localCommitted: 4321,
      localEffects: 8642,
      localLostByFailover: 5,
      localEffectsLostByFailover: 18,
      localDeadLetters: 37,
      httpRequests: 2345,
      httpAnswers: 3456,
      httpReplays: 41,
      httpEffects: 2346,
      httpEffectsLostByFailover: 7,
      httpCharges: 1234,
      httpChargesEnded: 1199,
      relayDeaths: 0,
      maxStretch: 1,
    },
    workers: new Map(),
    events: [
      { kind: 'phase', name: 'warm-up', text: 'all workers are at work', fromMs: 1000, toMs: 1000 },
      { kind: 'fault', name: 'kill', text: 'SIGKILL of <relay-1>', fromMs: 2000, toMs: 2000, step: 1 },
      { kind: 'phase', name: 'drain', text: 'no more faults', fromMs: 60_000, toMs: 60_000 },
    ],
    samples: [0, 1000, 2000].map((atMs) => ({ atMs, published: atMs, processed: atMs })),
    folder: '/tmp',
    ...more,
  }
}

test('the page names every phase, fault and check, and no text of a run becomes markup', () => {
  const page = toHtml(result())
  for (const text of [
    '>warm-up<',
    '>drain<',
    '>kill<',
    '>60 s<',
    'SIGKILL of &lt;relay-1&gt;',
    '>53<',
    '12,345',
    '6,789',
    '>29<',
    '8,642',
    '>37<',
    '>31<',
    '2,345',
    '3,456',
    '>41<',
  ]) {
    expect(page).toContain(text)
  }
  for (const name of NAMES) expect(page).toContain(CHECKS[name])
  expect(page).not.toContain('<relay-1>')
  expect(page).not.toMatch(/NaN|undefined|null/)
})

test('the table names the messages of the queue and of the local consumers, HTTP requests, and the dead letters of a consumer', () => {
  const table = formatResult(result())
  for (const text of [
    '6789 committed, 6789 effects',
    '4 queue messages, 17 of their effects',
    '4321 committed, 8642 effects',
    '5 local messages, 18 of their effects',
    '37, driven again at the end',
    '31 of a consumer, driven again at once',
    '2345 sent, 3456 answers, 41 of them replays',
    '2346; 7 more were lost by failovers',
  ]) {
    expect(table).toContain(text)
  }
})

test('a run without samples or faults has a page too', () => {
  expect(toHtml(result({ events: [], samples: [], durationMs: 0 }))).not.toMatch(/NaN|Infinity|undefined/)
})

test('a check without observations is not green, in the page and in the table', () => {
  expect(toHtml(result())).toContain('<td class="none">nothing to look at</td>')
  expect(toHtml(result())).toContain(
    `No violation: ${NAMES.length - 1} checks hold, 1 had nothing to look at.`,
  )
  expect(formatResult(result())).toContain(
    `No violation: ${NAMES.length - 1} checks hold, 1 had nothing to look at.`,
  )
})

test('the axis has a few labels at round seconds', () => {
  expect(ticks(61_000)).toEqual([0, 10, 20, 30, 40, 50, 60])
  for (const durationMs of [0, 900, 6000, 61_000, 1_017_000, 86_400_000]) {
    expect(ticks(durationMs).length).toBeLessThanOrEqual(9)
  }
})
