import * as fc from 'fast-check'
import { DummyDriver, Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler } from 'kysely'
import { expect } from 'vitest'
import type { TxboxErrorCode } from '@txbox/core'
import {
  applyIfNewer,
  applyVersion,
  deleteVersioned,
  stateMachine,
  transition,
  updateMerged,
  updateVersioned,
} from '@txbox/versioning'
import { fuzz } from '../../support/worlds/fuzz.ts'
import {
  anything,
  hostileRecord,
  hostileText,
  SECRET,
  withOwnMembers,
} from '../../support/worlds/hostile-values.ts'
import { expectRefusal, outcomeOfAsync } from '../../support/worlds/refusals.ts'

/** Compiles statements and finds no row: enough for everything that is checked before a statement is sent. */
const db = new Kysely<Record<string, Record<string, unknown>>>({
  dialect: {
    createAdapter: () => new PostgresAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (root) => new PostgresIntrospector(root),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  },
})

const REFUSALS: readonly TxboxErrorCode[] = [
  'TXBOX_INVALID_OPTION',
  'TXBOX_INVALID_MESSAGE',
  'TXBOX_ROW_NOT_FOUND',
  'TXBOX_UNSUPPORTED_TRANSACTION',
  'TXBOX_EDIT_CONFLICT',
]

const plain = fc.oneof(hostileText(), fc.double(), fc.bigInt(), fc.boolean(), fc.date(), fc.uint8Array())
/** Names of tables and columns: Kysely itself reads dots and ' as ' in them. */
const name = hostileText().map((text) => text.replaceAll('.', '_').replaceAll(/ as /gi, '_'))
const columns = (value: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc.array(fc.tuple(name, value), { maxLength: 3 }).map(withOwnMembers)
const version = fc.oneof(
  fc.integer(),
  fc.double(),
  fc.bigInt(),
  hostileText(),
  fc.bigInt().map(String),
  fc.constantFrom(2n ** 64n, -(2n ** 63n), '007', '-0', -0),
)
const time = fc.oneof(
  fc.date({ noInvalidDate: false }),
  hostileText(),
  fc.date({ noInvalidDate: true }).map((date) => date.toISOString()),
  fc.constantFrom(
    '9999-12-31T23:59:59-23:59',
    '0000-01-01T00:00:00Z',
    '2026-02-30T00:00:00Z',
    '2026-01-01T00:00:60Z',
  ),
)
const machine = fc.oneof(
  fc.constant(stateMachine({ a: ['b'], b: ['a'] })),
  hostileRecord({
    states: fc.array(hostileText(), { maxLength: 3 }),
    moves: columns(fc.array(hostileText())),
  }),
)

type Call = (tx: never, table: never, options: never) => Promise<unknown>

const calls: Record<string, readonly [Call, Record<string, fc.Arbitrary<unknown>>]> = {
  updateVersioned: [
    updateVersioned as Call,
    { where: columns(plain), expected: version, set: columns(plain), versionColumn: name },
  ],
  deleteVersioned: [
    deleteVersioned as Call,
    { where: columns(plain), expected: version, versionColumn: name },
  ],
  applyVersion: [
    applyVersion as Call,
    { where: columns(plain), from: version, to: version, set: columns(plain), versionColumn: name },
  ],
  applyIfNewer: [
    applyIfNewer as Call,
    {
      where: columns(plain),
      column: name,
      at: time,
      set: columns(plain),
      maxAheadMs: fc.double(),
    },
  ],
  transition: [
    transition as Call,
    { where: columns(plain), column: name, to: hostileText(), machine, set: columns(plain) },
  ],
  updateMerged: [
    updateMerged as Call,
    {
      where: columns(plain),
      merge: fc.constant(() => ({})),
      attempts: fc.integer({ min: -1, max: 3 }),
      versionColumn: name,
    },
  ],
}

for (const [title, [call, members]] of Object.entries(calls)) {
  const options = fc.oneof({ weight: 4, arbitrary: hostileRecord(members) }, anything())
  const table = fc.oneof({ weight: 3, arbitrary: name }, anything())
  const root = fc.oneof({ weight: 6, arbitrary: fc.constant(undefined) }, anything())
  fuzz(
    `${title} refuses hostile tables, rows and values`,
    800,
    fc.tuple(root, table, options),
    async (given) => {
      const outcome = await outcomeOfAsync(() =>
        call((given[0] ?? db) as never, given[1] as never, given[2] as never),
      )
      if ('thrown' in outcome && (isOfKysely(outcome.thrown) || showsKey(outcome.thrown))) return
      if ('thrown' in outcome) expectRefusal(outcome.thrown, ...REFUSALS)
      else expect(outcome.result).not.toBeNull()
    },
  )
}

/** The error of Kysely for a column with more than two dots in its name; names are the program's own. */
function isOfKysely(thrown: unknown): boolean {
  return thrown instanceof Error && thrown.message.startsWith('invalid column reference')
}

/** The key of a row is shown, so that the row can be found. */
function showsKey(thrown: unknown): boolean {
  return thrown instanceof Error && thrown.message.includes(`secret = '${SECRET}'`)
}
