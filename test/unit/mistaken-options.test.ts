import { createPool } from 'mysql2/promise'
import { Pool } from 'pg'
import { expect, test } from 'vitest'
import { mysql } from '@txbox/mysql'
import { postgres } from '@txbox/postgres'

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
