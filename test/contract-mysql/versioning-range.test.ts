import { Kysely, MysqlDialect } from 'kysely'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { InvalidOptionError } from '@txbox/core'
import { updateMerged, updateVersioned } from '@txbox/versioning'
import { poolOf } from '../support/engines/mysql-pool.ts'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { useTarget } from '../support/engines/target.ts'

interface Tables {
  tallies: { id: number; note: string; version: string }
}

const GREATEST = 2n ** 64n - 1n

const target = useTarget()
const outbox = useOutboxTarget(target)

beforeAll(() =>
  target.sql(
    'create table tallies (id integer primary key, note varchar(10) not null, version bigint unsigned not null)',
  ),
)

test('V1 V5 without strict mode, the version after the greatest one is refused: the server would store another version', async () => {
  const pool = poolOf(outbox.url(), { supportBigNumbers: true, bigNumberStrings: true }, [
    "set session sql_mode = ''",
  ])
  const db = new Kysely<Tables>({ dialect: new MysqlDialect({ pool }) })
  onTestFinished(() => db.destroy())
  await target.sql('insert into tallies (id, note, version) values (1, ?, ?)', ['old', String(GREATEST)])
  const set = { note: 'new' }
  await expect(updateVersioned(db, 'tallies', { where: { id: 1 }, expected: GREATEST, set })).rejects.toThrow(
    InvalidOptionError,
  )
  await expect(updateMerged(db, 'tallies', { where: { id: 1 }, merge: () => set })).rejects.toThrow(
    InvalidOptionError,
  )
  const [row] = await target.sql('select note, cast(version as char) as version from tallies')
  expect(row).toMatchObject({ note: 'old', version: String(GREATEST) })
})
