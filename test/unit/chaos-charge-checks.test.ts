import { appendFileSync, mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { checkCharges } from '../../chaos/check/charge-checks.ts'
import { readCharges, type Charge, type ChargeRecord } from '../../chaos/check/charge-history.ts'
import type { HttpAnswer, HttpCall } from '../../chaos/check/http-history.ts'

function answer(atMs: number, status: number, id?: string): HttpAnswer {
  return { service: 'http-service-1', status, id, isReplayed: false, atMs }
}

function call(key: string, ...answers: readonly HttpAnswer[]): HttpCall {
  return { call: `call of ${key}`, path: '/payments', key, ill: undefined, atMs: 0, answers }
}

function charge(key: string, id: string, beganMs: number, endedMs?: number): Charge {
  return { id, key, providerKey: `provider ${key}`, worker: 'w', beganMs, endedMs }
}

const CALLS: readonly HttpCall[] = [
  call('one', answer(100, 409), answer(300, 201, 'b')),
  call('one', answer(400, 201, 'b')),
  { ...call('two', answer(200, 500), answer(400, 201, 'd')), ill: 'throw' },
]
/** The first handler of the first request was killed. */
const CHARGES = [charge('one', 'a', 10), charge('one', 'b', 200, 290), charge('two', 'd', 250, 380)]

/** A correct run. */
function record(change: Partial<ChargeRecord> = {}): ChargeRecord {
  return { httpCalls: CALLS, charges: CHARGES, leasedResponses: ['b', 'd'], failovers: [], ...change }
}

function violated(change: Partial<ChargeRecord>): readonly string[] {
  const { violations } = checkCharges(record(change))
  return violations.map(({ id, text }) => `${id ?? 'no request'}: ${text}`)
}

test('a correct run violates no check of requests under a lease, and each call was looked at', () => {
  expect(violated({})).toEqual([])
  expect(checkCharges(record()).looked).toBe(3)
})

const WRONG: readonly (readonly [string, Partial<ChargeRecord>, string])[] = [
  [
    'an answer names no charge',
    { charges: CHARGES.slice(0, 2), leasedResponses: ['b'] },
    'two: http-service-1 answered',
  ],
  [
    'an answer names a charge that has not ended',
    { charges: [...CHARGES.slice(0, 2), charge('two', 'd', 250)] },
    'two: http-service-1 answered',
  ],
  [
    'an answer names the charge of another request',
    { httpCalls: [call('two', answer(1, 201, 'b'))] },
    'two:',
  ],
  [
    'two answers are different',
    {
      httpCalls: [...CALLS, call('two', answer(500, 201, 'e'))],
      charges: [...CHARGES, charge('two', 'e', 420, 450)],
    },
    'two: The two was answered with different responses: d, e.',
  ],
  [
    'two handlers run at once',
    { charges: [...CHARGES, charge('two', 'e', 300)] },
    'two: Two handlers of the two ran under a lease at once: d by w and e by w.',
  ],
  [
    'the provider gets two keys for a request',
    { charges: [...CHARGES, { ...charge('two', 'e', 500), providerKey: 'other' }] },
    'two: The provider got several keys',
  ],
  [
    'the provider gets one key for two requests',
    { charges: [...CHARGES.slice(0, 2), { ...CHARGES[2]!, providerKey: 'provider one' }] },
    'one: The provider got one key for one and two.',
  ],
  ['a request was never sent', { charges: [...CHARGES, charge('three', 'x', 1, 2)] }, 'three: The three was'],
  ['nothing explains a status', { httpCalls: [...CALLS, call('one', answer(1, 422))] }, 'one:'],
  ['a lease has no response', { leasedResponses: ['b', undefined] }, 'no request: The number of leases'],
  ['a response comes from nowhere', { leasedResponses: ['b', 'x'] }, 'no request: The response x is stored'],
]

for (const [title, change, text] of WRONG) {
  test(`http charge: ${title}`, () => {
    expect(violated(change)).toContainEqual(expect.stringContaining(text))
  })
}

test('around a failover answers may be different, and charges at once', () => {
  const different = {
    httpCalls: [...CALLS, call('two', answer(500, 201, 'e'))],
    charges: [...CHARGES, charge('two', 'e', 300, 450)],
  }
  expect(violated(different)).toHaveLength(2)
  expect(violated({ ...different, failovers: [430] })).toEqual([])
  expect(violated({ ...different, failovers: [60_000] })).toHaveLength(2)
})

test('a failover may have lost the response of a charge that ended shortly before it, but no other one', () => {
  expect(violated({ leasedResponses: ['b', undefined], failovers: [400] })).toEqual([])
  expect(violated({ leasedResponses: ['b', 'd', undefined], failovers: [400] })).toHaveLength(1)
  expect(violated({ leasedResponses: ['b', undefined], failovers: [60_000] })).toHaveLength(1)
})

test('the log of the provider is read up to its last whole line', () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'txbox-charges-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const file = path.join(folder, 'charges.jsonl')
  expect(readCharges(file)).toEqual([])
  const line = (what: string, id: string, atMs: number): string =>
    `${JSON.stringify({ what, id, key: 'one', providerKey: 'provider one', worker: 'w', atMs })}\n`
  appendFileSync(file, line('began', 'b', 20) + line('began', 'a', 10) + line('ended', 'b', 30))
  appendFileSync(file, line('ended', 'a', 40).slice(0, 12))
  expect(readCharges(file)).toEqual([charge('one', 'a', 10), charge('one', 'b', 20, 30)])
})
