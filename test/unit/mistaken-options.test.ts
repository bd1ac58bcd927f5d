import { createPool } from 'mysql2/promise'
import { Pool } from 'pg'
import { expect, test } from 'vitest'
import { createConsumer } from '@txbox/consumer'
import { InvalidOptionError } from '@txbox/core'
import { migrate as migrateMysql, mysql } from '@txbox/mysql'
import { migrate, pendingMigrations, postgres } from '@txbox/postgres'
import { createQueue } from '@txbox/queue'

test('a pool that is passed instead of the options is named, and so are the options', () => {
  expect(() => postgres(new Pool() as never)).toThrow(
    /The options are db, .* Pass an object of options, not an object of class BoundPool\.$/,
  )
  expect(() => mysql(createPool({}) as never)).toThrow(
    /The options are db, .* Pass an object of options, not an object of class PromisePool\.$/,
  )
})

test('a misspelled option is named, and so are the options', () => {
  expect(() => postgres({ shema: 'x' } as never)).toThrow(
    "postgres: there is no option 'shema'. The options are db, schema, listen, listenCheckIntervalMs, libraries.",
  )
})

test.for<[string, unknown]>([
  ['undefined', undefined],
  ['an object', {}],
])('transact without a function, but %s, is an InvalidOptionError', async ([given, work]) => {
  for (const database of [postgres({ db: new Pool() }), mysql({ db: createPool({}) })]) {
    const call = database.transact(work as never)
    await expect(call).rejects.toThrow(InvalidOptionError)
    await expect(call).rejects.toThrow(
      `transact: expected a function that is called with the transaction, not ${given}.`,
    )
  }
})

test('a queue that is passed as the source of a consumer refers to queueSource', () => {
  const source = createQueue({ database: postgres(), name: 'mail' })
  expect(() => createConsumer({ source: source as never, name: 'c', handler: () => undefined })).toThrow(
    /'source' must be a source, such as .*queueSource\(queue\)/,
  )
})

test.for<[string, () => unknown]>([
  ['migrate', () => migrate(postgres({ db: new Pool() }) as object)],
  ['migrate', () => migrateMysql(mysql() as object)],
  ['pendingMigrations', () => pendingMigrations(postgres() as object)],
  ['postgres', async () => postgres({ db: postgres() as never })],
])('%s with a database of txbox, and not its db, says what to pass', async ([call, wrong]) => {
  await expect(wrong()).rejects.toThrow(
    new RegExp(
      `^${call}: 'db' must be .*, not a database of txbox\\. Pass the root itself, not .* postgres\\(\\)`,
    ),
  )
})
