import * as fc from 'fast-check'
import { storableText } from '../worlds/hostile-values.ts'
import type { Target } from './target.ts'

/** SQL for a value that was written into a column by hand. */
export interface Altered {
  readonly column: string
  readonly sql: string
  readonly value: unknown
}

const BROKEN_JSON: readonly string[] = [
  '',
  'null',
  '7',
  '"text"',
  '[]',
  '["a"]',
  '{',
  '{"a":1}',
  '{"a":null}',
  '{"a":{"b":"c"}}',
  '{"__proto__":{"polluted":1}}',
  '{"__proto__":"x","constructor":"y","toString":"z"}',
  '['.repeat(20_000),
  `${'['.repeat(20_000)}${']'.repeat(20_000)}`,
  '{"a":"\\u0000\\u001b[2J\\ud800"}',
  'correct-horse-battery-staple',
]

function parameter(column: string, values: fc.Arbitrary<unknown>): fc.Arbitrary<Altered> {
  return values.map((value) => ({ column, sql: '?', value }))
}

/** Instants that a column accepts, as SQL. */
function instants(target: Target): readonly string[] {
  const common = ["'1000-01-01'", "'1970-01-01'", "'2038-01-19 03:14:08'", "'9999-12-31 23:59:59'"]
  if (target.engine !== 'postgres') return [...common, "'0001-01-01'"]
  return [...common, "'infinity'", "'-infinity'", "'4713-01-01 BC'", "'294276-12-31'"].map(
    (text) => `${text}::timestamptz`,
  )
}

function instant(target: Target, column: string, nullable: boolean): fc.Arbitrary<Altered> {
  const all = [...instants(target), ...(nullable ? ['null'] : [])]
  return fc.constantFrom(...all).map((sql) => ({ column, sql, value: undefined }))
}

/** Text that the column accepts; columns of MySQL hold at most 255 characters. */
const text = storableText(250)
const nullableText = fc.option(text)
const json = fc.oneof(fc.constantFrom(...BROKEN_JSON), fc.json())

/** The place of the topic in {@link messageColumns}: in the queue, it is the name of the queue. */
const TOPIC_COLUMN = 1

/** One or more columns of a message in the outbox or parked, with values that txbox never writes. */
function messageColumns(target: Target): readonly fc.Arbitrary<Altered>[] {
  return [
    parameter('headers', json),
    parameter('topic', fc.oneof(text, fc.constant(''))),
    parameter('type', nullableText),
    parameter('content_type', fc.oneof(text, fc.constantFrom('', 'application/json', 'text/plain'))),
    parameter('correlation_id', nullableText),
    parameter('trace_context', nullableText),
    parameter(
      'payload',
      fc.uint8Array().map((bytes) => Buffer.from(bytes)),
    ),
    parameter('id', fc.oneof(text, fc.constant(''))),
    instant(target, 'created_at', false),
  ]
}

export function alteredOutbox(target: Target): fc.Arbitrary<readonly Altered[]> {
  return some(messageColumns(target))
}

export function alteredParked(target: Target): fc.Arbitrary<readonly Altered[]> {
  const least = target.engine === 'postgres' ? -2_147_483_648 : 0
  return some([
    ...messageColumns(target),
    parameter('attempts', fc.constantFrom(least, 0, 1, 2_147_483_647)),
    parameter('error', fc.option(fc.oneof(storableText(10_000), fc.constant('')))),
    parameter('errors', fc.option(json)),
    parameter('order_key', nullableText),
    instant(target, 'due_at', true),
    instant(target, 'dead_at', true),
    instant(target, 'deliver_at', true),
  ])
}

/** A message of a queue that waits, or that is in flight. */
export function alteredQueue(target: Target): fc.Arbitrary<readonly Altered[]> {
  const least = target.engine === 'postgres' ? -2_147_483_648 : 0
  return some([
    ...messageColumns(target).filter((_, index) => index !== TOPIC_COLUMN),
    parameter('attempts', fc.constantFrom(least, 0, 1, 2_147_483_647)),
    parameter('timeouts', fc.constantFrom(least, 0, 2, 2_147_483_647)),
    parameter('error', fc.option(fc.oneof(storableText(10_000), fc.constant('')))),
    parameter('errors', fc.option(json)),
    parameter('key', nullableText),
    // The epoch is the mark of a handled message, which receivers remove.
    instant(target, 'due_at', true).filter(({ sql }) => !sql.includes('1970')),
    instant(target, 'deliver_at', true),
  ])
}

export function alteredLease(target: Target): fc.Arbitrary<readonly Altered[]> {
  const least = target.engine === 'postgres' ? '-9223372036854775808' : '0'
  return some([
    parameter('owner', nullableText),
    parameter('in_flight', fc.option(fc.oneof(json, text))),
    parameter('crashes', fc.constantFrom(0, 1, 2, 1000, 2_147_483_647)),
    parameter('term', fc.constantFrom(least, '0', '9223372036854775806')),
    fc
      .constantFrom(...instants(target).filter((sql) => /1000|1970|BC|-inf|0001/.test(sql)), 'null')
      .map((sql) => ({ column: 'expires_at', sql, value: undefined })),
  ])
}

export function alteredClaim(target: Target): fc.Arbitrary<readonly Altered[]> {
  return some([
    parameter('correlation_id', nullableText),
    parameter('result', fc.option(json)),
    instant(target, 'processed_at', false),
    instant(target, 'expires_at', false),
  ])
}

export function alteredWaiting(target: Target): fc.Arbitrary<readonly Altered[]> {
  return some([
    parameter('payload', json),
    parameter('kind', fc.constantFrom('', 'number', 'bigint', 'string', '__proto__', 'toString', 'x')),
    parameter('reason', fc.option(fc.constantFrom('', 'too-old', 'x', '__proto__'))),
    parameter('to_version', fc.constantFrom('-9223372036854775808', '-1', '0', '1', '9223372036854775807')),
    instant(target, 'received_at', false),
    instant(target, 'dead_at', true),
  ])
}

function some(columns: readonly fc.Arbitrary<Altered>[]): fc.Arbitrary<readonly Altered[]> {
  return fc
    .array(fc.oneof(...columns), { minLength: 1, maxLength: 3 })
    .map((all) => Array.from(new Map(all.map((one) => [one.column, one])).values()))
}

/** `set` of an UPDATE, with its parameters. */
export function setOf(target: Target, altered: readonly Altered[]): { text: string; values: unknown[] } {
  const quote = target.engine === 'postgres' ? '"' : '`'
  return {
    text: altered.map(({ column, sql }) => `${quote}${column}${quote} = ${sql}`).join(', '),
    values: altered.filter(({ sql }) => sql === '?').map(({ value }) => value),
  }
}
