import { randomBytes } from 'node:crypto'
import { Kysely, PostgresDialect } from 'kysely'
import { Migrator } from 'kysely/migration'
import { Pool } from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { migrate, migrationProvider } from '@txbox/postgres'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { useTarget } from '../support/engines/target.ts'

const target = useTarget({ migrated: false })
const outbox = useOutboxTarget(target, { migrated: false })

/** Roles belong to the server, not to the database, and other tests may run at the same time. */
const owner = `txbox_owner_${randomBytes(4).toString('hex')}`

function poolOfOwner(): Pool {
  const url = new URL(outbox.url())
  url.username = owner
  url.password = 'x'
  return new Pool({ connectionString: url.href, max: 2 })
}

describe('a user who may not create schemas', () => {
  beforeAll(() => target.sql(`create role ${owner} login password 'x'`))
  afterAll(() => target.sql(`drop owned by ${owner}; drop role ${owner}`))

  test('migrates a schema that another user has created for that user', async () => {
    const pool = poolOfOwner()
    onTestFinished(() => pool.end())
    await expect(migrate(pool, { schema: 'mine' })).rejects.toThrow(/permission denied/)
    await target.sql(`create schema mine authorization ${owner}`)
    expect((await migrate(pool, { schema: 'mine' })).applied).toContain('0001_inbox')
    expect((await migrate(pool, { schema: 'mine' })).applied).toEqual([])
  })

  test('migrates that schema with a Migrator of Kysely too', async () => {
    const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool: poolOfOwner() }) })
    onTestFinished(() => db.destroy())
    await target.sql(`create schema "also mine" authorization ${owner}`)
    const { error } = await new Migrator({
      db,
      provider: migrationProvider({ schema: 'also mine' }),
      migrationTableSchema: 'also mine',
    }).migrateToLatest()
    expect(error).toBeUndefined()
    expect((await migrate(db, { schema: 'also mine' })).applied).toEqual([])
  })
})
