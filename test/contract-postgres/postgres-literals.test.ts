import { Client } from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { InvalidMessageError } from '@txbox/core'
import { plainValue } from '../../packages/sql/src/transactions/array-text.ts'
import { literal, withLiterals } from '../../packages/sql/src/transactions/drivers/postgres-literals.ts'
import { useTarget } from '../support/engines/target.ts'

const target = useTarget()

/** Settings that change the meaning of a quoted text. */
const SETTINGS: Readonly<Record<string, readonly string[]>> = {
  'as they are': [],
  'with strings of old': ['set standard_conforming_strings = off', 'set backslash_quote = on'],
  // A byte of UTF-8 may be the first half of a character here, and a backslash the other half.
  'in Shift JIS': ["set client_encoding = 'SJIS'"],
  'in Shift JIS with strings of old': [
    "set client_encoding = 'SJIS'",
    'set standard_conforming_strings = off',
  ],
  'with bytes as escapes': ["set bytea_output = 'escape'"],
}

const PIECES = [
  ...[
    '\\',
    "'",
    '"',
    "''",
    '\\\\',
    "\\'",
    "';select 1;--",
    '$1',
    '$$',
    '{',
    '}',
    ',',
    'NULL',
    ' ',
    '\n',
    '\r\n',
  ],
  ...[
    '\t',
    '\u0001',
    '\u007F',
    '\u0081',
    'é',
    '\u2028',
    '表',
    'ソ',
    '😀',
    '\u{10FFFF}',
    'a',
    'Z9',
    '--',
    '/*',
    '?',
  ],
] as const

/** A sequence that is the same in each run. */
function randomly(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7f_ff_ff_ff
    return (state >>> 8) % below
  }
}

function textsOf(seed: number, count: number): string[] {
  const next = randomly(seed)
  return Array.from({ length: count }, () =>
    Array.from({ length: next(12) }, () => PIECES[next(PIECES.length)]!).join(''),
  )
}

async function connected(settings: readonly string[]): Promise<Client> {
  const { host, port } = target.address()
  const [row] = await target.sql('select current_database() as name, current_user as role')
  const client = new Client({ host, port, database: String(row!['name']), user: String(row!['role']) })
  await client.connect()
  onTestFinished(() => client.end())
  for (const setting of settings) await client.query(setting)
  return client
}

describe.each(Object.entries(SETTINGS))('values as literals, with the settings %s', (_, settings) => {
  test('a text arrives unchanged', async () => {
    const client = await connected(settings)
    for (const value of [...PIECES, ...textsOf(1, 300)]) {
      // In hexadecimal, so that the answer does not depend on the settings.
      const text = withLiterals(
        "select pg_catalog.encode(pg_catalog.convert_to($1::text, 'UTF8'), 'hex') as hex, $2::text as after",
        [value, 'x'],
      )
      const { rows } = await client.query<{ hex: string; after: string }>(text)
      expect(rows).toEqual([{ hex: Buffer.from(value).toString('hex'), after: 'x' }])
    }
  })

  test('bytes, null and lists arrive unchanged', async () => {
    const client = await connected(settings)
    const bytes = Buffer.from(Array.from({ length: 256 }, (__, n) => n))
    const list = [...PIECES, ...textsOf(2, 50), null, 'null', '']
    const text = withLiterals(
      `select pg_catalog.encode($1::bytea, 'hex') as bytes, $2::text is null as none,
        (select pg_catalog.string_agg(coalesce(pg_catalog.encode(pg_catalog.convert_to(given, 'UTF8'), 'hex'), 'none'), ',' order by n)
         from pg_catalog.unnest($3::text[]) with ordinality as list (given, n)) as list,
        pg_catalog.encode(($4::bytea[])[1], 'hex') as first`,
      [bytes, null, list, [bytes]],
    )
    const { rows } = await client.query<Record<string, unknown>>(text)
    const expected = list
      .map((each) => (each === null ? 'none' : Buffer.from(each).toString('hex')))
      .join(',')
    expect(rows).toEqual([
      { bytes: bytes.toString('hex'), none: true, list: expected, first: bytes.toString('hex') },
    ])
  })
})

test('a literal is printable ASCII, whatever the value is', () => {
  for (const value of [...PIECES, ...textsOf(3, 500)]) expect(literal(value)).toMatch(/^[\x20-\x7E]*$/)
})

test('a lone surrogate is replaced, as in UTF-8', () => {
  expect(literal('\uD83D')).toBe(literal('\uFFFD'))
})

test('NUL is refused', () => {
  expect(() => withLiterals('select $1', ['a\0b'])).toThrow(InvalidMessageError)
  expect(() => withLiterals('select $1', [['\0']])).toThrow(InvalidMessageError)
})

test('text that looks like a parameter stays unchanged in names, texts and values', () => {
  expect(
    withLiterals(`select $1, '$1''$1', "$1""$1".t, $2, $11`, ['$2', ...Array<string>(10).fill('x')]),
  ).toBe(`select '$2', '$1''$1', "$1""$1".t, 'x', 'x'`)
  expect(() => withLiterals('select $2', ['x'])).toThrow('A statement has $2')
})

test('a number is sent as text', () => {
  expect([plainValue(1), plainValue(10n), plainValue(true)]).toEqual(['1', '10', 'true'])
})
