import { describe, expect, test } from 'vitest'
import type { TxboxErrorCode } from '@txbox/core'
import * as mysql from '../../packages/mysql/src/connection/errors.ts'
import * as postgres from '../../packages/postgres/src/connection/errors.ts'

/** [code, text, what it becomes (nothing: it comes out as it is), retryable] */
type Case = readonly [number | string, string, TxboxErrorCode | undefined, boolean]

const POSTGRES: readonly Case[] = [
  ['40001', 'could not serialize access', 'TXBOX_TRANSACTION_CONFLICT', true],
  ['25P02', 'current transaction is aborted', 'TXBOX_TRANSACTION_ABORTED', false],
  ['25P04', 'terminating connection due to transaction timeout', 'TXBOX_TRANSACTION_ABORTED', false],
  ['22P05', 'character with byte sequence 0xe2 0x82 0xac', 'TXBOX_INVALID_MESSAGE', false],
  ['3D000', 'database "shop" does not exist', 'TXBOX_DATABASE_ACCESS', false],
  ['28000', 'role "shop" does not exist', 'TXBOX_DATABASE_ACCESS', false],
  ['28P01', 'password authentication failed for user "shop"', 'TXBOX_DATABASE_ACCESS', false],
  ['57P01', 'terminating connection due to administrator command', 'TXBOX_DATABASE_UNAVAILABLE', true],
  ['08P01', 'transaction blocks not allowed in statement pooling mode', 'TXBOX_DATABASE_ACCESS', false],
  ['53300', 'sorry, too many clients already', 'TXBOX_DATABASE_UNAVAILABLE', true],
  ['53100', 'could not extend file: No space left on device', 'TXBOX_DATABASE_UNAVAILABLE', true],
  ['53200', 'out of memory', undefined, false],
  ['25006', 'cannot execute INSERT in a read-only transaction', 'TXBOX_DATABASE_UNAVAILABLE', true],
  ['42P01', 'relation "txbox.inbox" does not exist', 'TXBOX_SCHEMA', false],
  ['23505', 'duplicate key value', undefined, false],
]

const MYSQL: readonly Case[] = [
  [1213, 'Deadlock found when trying to get lock', 'TXBOX_TRANSACTION_CONFLICT', true],
  [3101, 'Plugin instructed the server to rollback', 'TXBOX_TRANSACTION_CONFLICT', true],
  [
    1180,
    "Got error 149 - 'Lock deadlock; Retry transaction' during COMMIT",
    'TXBOX_TRANSACTION_CONFLICT',
    true,
  ],
  [1180, 'Got error 149 "Lock deadlock" during COMMIT', 'TXBOX_TRANSACTION_CONFLICT', true],
  [1180, 'lost connection to the primary component', 'TXBOX_DATABASE_UNAVAILABLE', true],
  [1180, 'Got error 5 "Input/output error" during COMMIT', 'TXBOX_DATABASE_UNAVAILABLE', true],
  [1047, 'WSREP has not yet prepared node for application use', 'TXBOX_DATABASE_UNAVAILABLE', true],
  [1040, 'Too many connections', 'TXBOX_DATABASE_UNAVAILABLE', true],
  [
    1021,
    'Disk full (./binlog.000001); waiting for someone to free some space',
    'TXBOX_DATABASE_UNAVAILABLE',
    true,
  ],
  [1114, "The table 'txbox_outbox' is full", 'TXBOX_DATABASE_UNAVAILABLE', true],
  [1030, 'Got error 28 "No space left on device" from storage engine', 'TXBOX_DATABASE_UNAVAILABLE', true],
  [1030, "Got error 122 - 'Internal error' from storage engine", 'TXBOX_DATABASE_UNAVAILABLE', true],
  [1030, 'Got error 168 - Unknown error from storage engine', undefined, false],
  [
    3,
    "Error writing file './t/x.MYI' (OS errno 28 - No space left on device)",
    'TXBOX_DATABASE_UNAVAILABLE',
    true,
  ],
  [
    1290,
    'The MySQL server is running with the --read-only option so it cannot execute this statement',
    'TXBOX_DATABASE_UNAVAILABLE',
    true,
  ],
  [
    1290,
    'The MariaDB server is running with the --read-only option so it cannot execute this statement',
    'TXBOX_DATABASE_UNAVAILABLE',
    true,
  ],
  [
    1290,
    'The MySQL server is running with the --super-read-only option so it cannot execute this statement',
    'TXBOX_DATABASE_UNAVAILABLE',
    true,
  ],
  [
    1290,
    'The MySQL server is running with the --secure-file-priv option so it cannot execute this statement',
    undefined,
    false,
  ],
  [
    1290,
    'The MySQL server is running with the --skip-grant-tables option so it cannot execute this statement',
    undefined,
    false,
  ],
  [1792, 'Cannot execute statement in a READ ONLY transaction.', 'TXBOX_DATABASE_UNAVAILABLE', true],
  [1836, 'Running in read-only mode', 'TXBOX_DATABASE_UNAVAILABLE', true],
  [1044, "Access denied for user 'shop'@'%' to database 'x'", 'TXBOX_DATABASE_ACCESS', false],
  [1045, "Access denied for user 'shop'@'%'", 'TXBOX_DATABASE_ACCESS', false],
  [1049, "Unknown database 'shop'", 'TXBOX_DATABASE_ACCESS', false],
  [1130, "Host 'h' is not allowed to connect", 'TXBOX_DATABASE_ACCESS', false],
  [1146, "Table 'x.txbox_inbox' doesn't exist", 'TXBOX_SCHEMA', false],
  [1062, 'Duplicate entry', undefined, false],
]

describe.each([
  { name: 'PostgreSQL', ...postgres, property: 'code', cases: POSTGRES },
  { name: 'MySQL', ...mysql, property: 'errno', cases: MYSQL },
])('an error of $name', ({ translate, isConflict, property, cases }) => {
  test.for([...cases])('%s (%s) is %s', ([number, text, code, retryable]) => {
    const cause = Object.assign(new Error(text), { [property]: number })
    const error = translate(cause, 'doing something')
    if (code === undefined) return expect(error).toBe(cause)
    expect(error).toMatchObject({ code, retryable, cause })
    expect(String(error)).toContain('doing something')
    if (code !== 'TXBOX_TRANSACTION_ABORTED' || number === '25P04') expect(String(error)).toContain(text)
    const isOfConflict = code === 'TXBOX_TRANSACTION_CONFLICT'
    for (const thrown of [cause, error, new Error('of the user', { cause })]) {
      expect(isConflict(thrown)).toBe(isOfConflict)
    }
  })

  test('is quoted in one line of a bounded length, with its causes and without passwords', () => {
    const cause = new AggregateError([
      new Error('connect ECONNREFUSED ::1:5432'),
      new Error('connect ECONNREFUSED 127.0.0.1:5432'),
    ])
    const refused = translate(Object.assign(cause, { code: 'ECONNREFUSED' }), 'connecting')
    expect(refused).toMatchObject({ code: 'TXBOX_DATABASE_UNAVAILABLE' })
    expect(String(refused)).toContain('connect ECONNREFUSED ::1:5432; connect ECONNREFUSED 127.0.0.1:5432')
    const [[number, ,]] = cases as readonly [Case]
    const long = Object.assign(new Error(`a\r\n\u001B[31mb x://u:secret@h ${'x'.repeat(1_000_000)}`), {
      [property]: number,
    })
    const text = String(translate(long, 'doing something'))
    expect(text).toContain(String.raw`a \u001b[31mb x://u:***@h`)
    expect(text.length).toBeLessThan(700)
  })

  test('that cannot be read is not a conflict, and is rethrown unchanged', () => {
    const hostile = new Proxy(new Error('mine'), {
      get() {
        throw new Error('A getter threw.')
      },
      getPrototypeOf() {
        throw new Error('A trap threw.')
      },
    })
    expect(isConflict(hostile)).toBe(false)
    expect(translate(hostile, 'doing something')).toBe(hostile)
  })
})

test.for([
  [postgres, 'code', '25006', 'cannot execute INSERT in a read-only transaction'],
  [mysql, 'errno', 1290, 'The MySQL server is running with the --read-only option'],
  [mysql, 'errno', 1290, 'The MySQL server is running with the --super-read-only option'],
  [mysql, 'errno', 1792, 'Cannot execute statement in a READ ONLY transaction.'],
  [mysql, 'errno', 1836, 'Running in read-only mode'],
] as const)(
  'a server that only reads is called read-only, not unreachable (%#)',
  ([{ translate }, property, code, text]) => {
    // Knex puts the statement before the message of the driver.
    for (const before of ['', `insert into t values (${'?, '.repeat(200)}?) - `]) {
      const error = String(
        translate(Object.assign(new Error(before + text), { [property]: code }), 'claiming'),
      )
      expect(error).toContain('claiming: the database accepts no writes')
      expect(error).toMatch(/read-only.*standby.*failover.*address.*primary/)
      expect(error).not.toContain('cannot be reached')
    }
  },
)

test('the event by which a WebSocket reports a failure is a DatabaseUnavailableError', () => {
  const event = Object.assign(new Event('error'), { message: '' })
  expect(postgres.translate(event, 'opening')).toMatchObject({
    code: 'TXBOX_DATABASE_UNAVAILABLE',
    cause: event,
  })
  expect(postgres.translate(Object.assign(new Error('mine'), { type: 'error' }), 'opening')).toMatchObject({
    message: 'mine',
  })
})

test.for(['cause', 'parent'])('a conflict is found in the property %s', (property) => {
  const wrapped = (driverError: object): Error =>
    Object.assign(new Error('of the library'), { [property]: driverError })
  const deadlock = Object.assign(new Error('deadlock'), { code: '40P01' })
  const mysqlDeadlock = Object.assign(new Error('deadlock'), { errno: 1213 })
  expect([postgres.isConflict(wrapped(deadlock)), mysql.isConflict(wrapped(mysqlDeadlock))]).toEqual([
    true,
    true,
  ])
  expect(postgres.translate(wrapped(deadlock), 'claiming')).toMatchObject({
    code: 'TXBOX_TRANSACTION_CONFLICT',
  })
})

test('P2034, by which the models of Prisma report a conflict, is a conflict on every database', () => {
  const error = Object.assign(new Error('of Prisma'), { code: 'P2034' })
  const other = Object.assign(new Error('of Prisma'), { code: 'P2025' })
  for (const { isConflict } of [postgres, mysql])
    expect([isConflict(error), isConflict(other)]).toEqual([true, false])
})

test('a conflict with another node of a group counts as lasting', () => {
  const group = Object.assign(new Error('rolled back'), { errno: 3101 })
  const deadlock = Object.assign(new Error('deadlock'), { errno: 1213 })
  expect(mysql.isLastingConflict(group)).toBe(true)
  expect(mysql.isLastingConflict(mysql.translate(group, 'committing'))).toBe(true)
  expect(mysql.isLastingConflict(new Error('of the user', { cause: group }))).toBe(true)
  expect(mysql.isLastingConflict(deadlock)).toBe(false)
  expect(mysql.isLastingConflict(mysql.translate(deadlock, 'committing'))).toBe(false)
})

for (const [name, { translate }] of Object.entries({ PostgreSQL: postgres, MySQL: mysql })) {
  test(`a pool of Knex or Sequelize that is full is a DatabaseUnavailableError (${name})`, () => {
    for (const library of ['KnexTimeoutError', 'SequelizeConnectionAcquireTimeoutError']) {
      const cause = Object.assign(new Error('Operation timeout'), { name: library })
      expect(translate(cause, 'doing something')).toMatchObject({ code: 'TXBOX_DATABASE_UNAVAILABLE', cause })
    }
  })
}

test('MySQL: a connection that was killed before the COMMIT of Knex is a DatabaseUnavailableError', () => {
  const cause = new Error("COMMIT; - Can't add new command when connection is in closed state")
  expect(mysql.translate(cause, 'committing')).toMatchObject({ code: 'TXBOX_DATABASE_UNAVAILABLE', cause })
})

test.for([
  ...[
    'ECONNREFUSED',
    'ECONNRESET',
    'ECONNABORTED',
    'EPIPE',
    'ETIMEDOUT',
    'EHOSTUNREACH',
    'EHOSTDOWN',
    'ENETUNREACH',
  ],
  ...[
    'ENETDOWN',
    'ENOTFOUND',
    'EAI_AGAIN',
    'EAI_FAIL',
    'UND_ERR_CONNECT_TIMEOUT',
    'UND_ERR_SOCKET',
    'ENOENT',
    'P1001',
  ],
])('%s means that the database cannot be reached', (code) => {
  for (const { translate } of [postgres, mysql]) {
    const cause = Object.assign(new Error('of the driver'), { code })
    expect(translate(cause, 'connecting')).toMatchObject({ code: 'TXBOX_DATABASE_UNAVAILABLE', cause })
  }
})
