import { expect, test } from 'vitest'
import {
  checkHttpAnswers,
  checkHttpEffects,
  checkHttpResponses,
  checkHttpStandstill,
} from '../../chaos/check/http-checks.ts'
import type { HttpAnswer, HttpCall, HttpEffect, HttpRecord } from '../../chaos/check/http-history.ts'

function answer(status: number, id?: string): HttpAnswer {
  return { service: 'http-service-1', status, id, isReplayed: false, atMs: 10 }
}

function call(key: string, ...answers: readonly HttpAnswer[]): HttpCall {
  return { call: `call of ${key}`, path: '/orders', key, ill: undefined, atMs: 0, answers }
}

function effect(serial: number, key: string, id: string): HttpEffect {
  return { serial, key, id, worker: 'w', beganMs: serial * 10, endedMs: serial * 10 + 5 }
}

type Record = HttpRecord & { readonly httpStandstills: readonly string[] }

const CALLS: readonly HttpCall[] = [
  call('one', answer(503), answer(409), answer(201, 'a')),
  call('one', answer(201, 'a')),
  { ...call('two', answer(500), answer(201, 'b')), ill: 'throw' },
]
const EFFECTS: readonly HttpEffect[] = [effect(1, 'one', 'a'), effect(2, 'two', 'b')]

/** A correct run: two requests, one of which was refused at first, and was sent again after its answer. */
function record(change: Partial<Record> = {}): Record {
  return {
    httpCalls: CALLS,
    httpEffects: EFFECTS,
    httpLost: [],
    httpResponses: ['a', 'b'],
    httpStandstills: [],
    ...change,
  }
}

function violated(change: Partial<Record>): readonly string[] {
  return [
    ...checkHttpEffects(record(change)).violations,
    ...checkHttpAnswers(record(change)).violations,
    ...checkHttpResponses(record(change)).violations,
    ...checkHttpStandstill(record(change)).violations,
  ].map(({ check, id }) => (id === undefined ? check : `${check} of ${id}`))
}

test('a correct run violates no check of HTTP requests, and each request and each answer was looked at', () => {
  expect(violated({})).toEqual([])
  expect(checkHttpEffects(record()).looked).toBe(2)
  expect(checkHttpAnswers(record()).looked).toBe(6)
  expect(checkHttpResponses(record()).looked).toBe(2)
  expect(checkHttpStandstill(record()).looked).toBe(3)
})

const WRONG: readonly (readonly [string, Partial<Record>, readonly string[]])[] = [
  [
    'a request takes effect twice',
    { httpEffects: [...EFFECTS, effect(3, 'two', 'c')], httpResponses: ['a', 'b', 'c'] },
    ['http effect of two'],
  ],
  [
    'the effect of a handler that has failed is committed',
    { httpEffects: [EFFECTS[0]!, { ...effect(2, 'two', 'b'), endedMs: 0 }] },
    ['http effect of two'],
  ],
  [
    'a request was answered, and its effect was rolled back',
    { httpEffects: EFFECTS.slice(0, 1), httpResponses: ['a'] },
    ['http effect of two'],
  ],
  [
    'a request has an effect that nobody sent',
    { httpEffects: [...EFFECTS, effect(3, 'three', 'c')], httpResponses: ['a', 'b', 'c'] },
    ['http effect of three'],
  ],
  [
    'an answer names the effect of another request',
    { httpCalls: [...CALLS, call('two', answer(201, 'a'))] },
    ['http answer of two'],
  ],
  [
    'an answer names an effect that was rolled back',
    { httpCalls: [...CALLS, call('two', answer(201, 'x'))] },
    ['http answer of two'],
  ],
  ['an answer is empty', { httpCalls: [...CALLS, call('two', answer(201))] }, ['http answer of two']],
  [
    'an answer cannot be explained',
    { httpCalls: [...CALLS, call('two', answer(422), answer(201, 'b'))] },
    ['http answer of two'],
  ],
  [
    'a request that was not made to fail has failed',
    { httpCalls: [...CALLS, call('two', answer(500), answer(201, 'b'))] },
    ['http answer of two'],
  ],
  [
    'a request that was only made to take long has failed',
    { httpCalls: [...CALLS, { ...call('two', answer(500), answer(201, 'b')), ill: 'slow' }] },
    ['http answer of two'],
  ],
  ['an effect is committed without its claim', { httpResponses: ['a'] }, ['http response of two']],
  [
    'a claim and its effect are committed without the response',
    { httpResponses: ['a', undefined] },
    ['http response', 'http response of two'],
  ],
  ['a response is stored without its effect', { httpResponses: ['a', 'b', 'c'] }, ['http response']],
  [
    'a request is refused until the end',
    { httpCalls: [...CALLS, call('three', answer(409))] },
    ['http standstill of three'],
  ],
  ['no answer came until the end', { httpCalls: [...CALLS, call('three')] }, ['http standstill of three']],
  [
    'a request waited too long during the run',
    { httpStandstills: ['The request three has waited for 9000 ms.'] },
    ['http standstill'],
  ],
]

for (const [title, change, checks] of WRONG) {
  test(`${title}: ${checks.join(', ')}`, () => {
    expect(violated(change)).toEqual(checks)
  })
}

test('a request whose effect a failover lost may have no effect, or another one', () => {
  const httpLost = [effect(2, 'two', 'b')]
  const withoutEffect = { httpEffects: EFFECTS.slice(0, 1), httpLost, httpResponses: ['a'] }
  expect(violated(withoutEffect)).toEqual([])
  const again = {
    httpCalls: [...CALLS, call('two', answer(201, 'c'))],
    httpEffects: [EFFECTS[0]!, effect(2, 'two', 'c')],
    httpLost,
    httpResponses: ['a', 'c'],
  }
  expect(violated(again)).toEqual([])
})

test('a request that was answered after the failover, and has no effect, is a violation', () => {
  const change = {
    httpCalls: [...CALLS, call('two', answer(201, 'c'))],
    httpEffects: EFFECTS.slice(0, 1),
    httpLost: [effect(2, 'two', 'b')],
    httpResponses: ['a'],
  }
  expect(violated(change)).toEqual(['http effect of two', 'http answer of two'])
})
