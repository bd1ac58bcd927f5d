import { expect, test } from 'vitest'
import { LIMITS } from '@txbox/core'
import { decodeHeaders, isTraceparent, isTracestate, traceContextOf } from '@txbox/core/internal'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const SPAN = 'b7ad6b7169203331'
const VALID = `00-${TRACE}-${SPAN}-01`

test.each([
  ['a valid one', VALID, true],
  ['not sampled', `00-${TRACE}-${SPAN}-00`, true],
  ['no text', 7, false],
  ['nothing', undefined, false],
  ['empty', '', false],
  ['another version', `01-${TRACE}-${SPAN}-01`, false],
  ['a trace of zeros', `00-${'0'.repeat(32)}-${SPAN}-01`, false],
  ['a span of zeros', `00-${TRACE}-${'0'.repeat(16)}-01`, false],
  ['capitals', VALID.toUpperCase(), false],
  ['too long', `${VALID}-00`, false],
  ['a line break behind it', `${VALID}\n`, false],
  ['white space', ` ${VALID}`, false],
])('a traceparent: %s', (_, value, isValid) => {
  expect(isTraceparent(value)).toBe(isValid)
})

test.each([
  ['one member', 'vendor=value', true],
  ['several, with white space', 'a=1, b@c=2 ,d_e-f*g/h=!~', true],
  ['an empty member', 'a=1,,b=2', true],
  ['512 characters', `${`a=${'1'.repeat(250)},`.repeat(2)}b=${'1'.repeat(4)}`, true],
  ['513 characters', `${`a=${'1'.repeat(250)},`.repeat(2)}b=${'1'.repeat(5)}`, false],
  ['33 members', Array.from({ length: 33 }, (_, n) => `a${n}=1`).join(','), false],
  ['empty', '', false],
  ['no value', 'vendor', false],
  ['two equal signs', 'a=1=2', false],
  ['capitals in a key', 'Vendor=1', false],
  ['a control character', 'a=1\u0007', false],
  ['other than ASCII', 'a=é', false],
])('a tracestate: %s', (_, value, isValid) => {
  expect(isTracestate(value)).toBe(isValid)
})

test('a context of headers has a valid traceparent, and a tracestate only if it is valid', () => {
  expect(traceContextOf(undefined)).toBeUndefined()
  expect(traceContextOf({ tracestate: 'a=1' })).toBeUndefined()
  expect(traceContextOf({ traceparent: 'nonsense', tracestate: 'a=1' })).toBeUndefined()
  expect(traceContextOf({ traceparent: VALID })).toEqual({ traceparent: VALID })
  expect(traceContextOf({ traceparent: VALID, tracestate: 'A' })).toEqual({ traceparent: VALID })
  expect(traceContextOf({ traceparent: VALID, tracestate: 'a=1' })).toEqual({
    traceparent: VALID,
    tracestate: 'a=1',
  })
})

test.each([
  ['no context', undefined, { own: '1' }],
  ['a traceparent', VALID, { own: '1', traceparent: VALID }],
  ['with a tracestate', `${VALID};a=1;2`, { own: '1', traceparent: VALID, tracestate: 'a=1;2' }],
  ['a tracestate that was changed by hand', `${VALID};A`, { own: '1', traceparent: VALID }],
  ['a text that was written by hand', 'nonsense', { own: '1' }],
  ['empty', '', { own: '1' }],
])('the headers of a stored message: %s', (_, stored, headers) => {
  expect(decodeHeaders('{"own":"1"}', stored)).toEqual({ headers, undecodable: undefined })
})

test('headers that cannot be decoded stay undecodable with a context', () => {
  expect(decodeHeaders('nonsense', VALID)).toEqual({
    headers: { traceparent: VALID },
    undecodable: 'Its headers are not valid JSON.',
  })
})

test('T8 a context that makes the headers larger than a message may have is left out, the tracestate first', () => {
  const added = (name: string, value: string): number => JSON.stringify({ [name]: value }).length - 1
  // Quotes and backslashes count as JSON.
  const tracestate = String.raw`a="\"`
  const stored = `${VALID};${tracestate}`
  const [parentBytes, stateBytes] = [added('traceparent', VALID), added('tracestate', tracestate)]
  const namesOf = (leftBytes: number, write = JSON.stringify): string[] => {
    const own = 'é'.repeat(100) + 'x'.repeat(LIMITS.headersBytes - leftBytes - 200 - '{"own":""}'.length)
    expect(Buffer.byteLength(JSON.stringify({ own }))).toBe(LIMITS.headersBytes - leftBytes)
    return Object.keys(decodeHeaders(write({ own }), stored).headers)
  }
  expect(namesOf(parentBytes + stateBytes)).toEqual(['own', 'traceparent', 'tracestate'])
  expect(namesOf(parentBytes + stateBytes - 1)).toEqual(['own', 'traceparent'])
  expect(namesOf(parentBytes)).toEqual(['own', 'traceparent'])
  expect(namesOf(parentBytes - 1)).toEqual(['own'])
  // MySQL returns JSON with white space.
  const spaced = ({ own }: { own: string }): string => `{"own": "${own}"}`
  expect(namesOf(parentBytes + stateBytes, spaced)).toEqual(['own', 'traceparent', 'tracestate'])
})
