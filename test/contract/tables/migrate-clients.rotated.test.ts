import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test, type TestContext } from 'vitest'
import { migrationsOf, namesOf, shapeOf } from '../../support/engines/migrations.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { skipBecause } from '../../support/tiers/skips.ts'
import { useTarget } from '../../support/engines/target.ts'

/** A name that careless quoting breaks. */
const AWKWARD = `My "Own" - it's; -- \`one\``

const target = useTarget({ migrated: false })
const connection = useOutboxTarget(target, { migrated: false })

/** Runs SQL text by the database's own client program, as people do. */
function runClient(test: Pick<TestContext, 'skip'>, sql: string): void {
  const url = new URL(connection.url())
  const host = ['-h', url.hostname]
  const name = url.pathname.slice(1)
  const [program, args, env] =
    target.engine === 'postgres'
      ? [
          'psql',
          [
            ...host,
            '-p',
            url.port || '5432',
            '-U',
            url.username,
            '-d',
            name,
            '-qX1',
            '-v',
            'ON_ERROR_STOP=1',
          ],
          { PGPASSWORD: decodeURIComponent(url.password) },
        ]
      : [
          'mysql',
          [...host, '-P', url.port || '3306', '-u', url.username, '--protocol=TCP', name],
          { MYSQL_PWD: decodeURIComponent(url.password) },
        ]
  const { error, status, stderr } = spawnSync(program, args, {
    input: sql,
    encoding: 'utf8',
    env: { ...process.env, ...env },
  })
  if (error !== undefined && Reflect.get(error, 'code') === 'ENOENT') skipBecause(test, 'no-client-program')
  expect([status, stderr]).toEqual([0, expect.not.stringMatching(/\berror\b/i)])
}

test('the files of migrations/ run unchanged in the client program, and again', async (context) => {
  const folder = path.join(
    import.meta.dirname,
    '../../../migrations',
    target.engine === 'postgres' ? 'postgres' : 'mysql',
  )
  const files = readdirSync(folder).toSorted()
  expect(files.map((file) => file.replace('.sql', ''))).toEqual(namesOf(target))
  for (const _round of [1, 2]) {
    for (const file of files) runClient(context, readFileSync(path.join(folder, file), 'utf8'))
  }
  expect(await target.migrate()).toEqual([])
})

test('the SQL for a name with capitals, quotes, hyphens and a semicolon runs in the client program too', async (context) => {
  runClient(
    context,
    migrationsOf(target, AWKWARD)
      .map(({ sql }) => sql)
      .join('\n'),
  )
  expect(await target.migrate({ schema: AWKWARD })).toEqual([])
  await target.migrate({ schema: 'clean' })
  expect(await shapeOf(target, AWKWARD)).toEqual(await shapeOf(target, 'clean'))
})
