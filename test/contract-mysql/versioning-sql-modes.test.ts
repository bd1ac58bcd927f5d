import { Kysely, MysqlDialect } from 'kysely'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { InvalidOptionError } from '@txbox/core'
import { applyIfNewer } from '@txbox/versioning'
import { poolOf } from '../support/engines/mysql-pool.ts'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { useTarget } from '../support/engines/target.ts'

interface Tables {
  readings: { id: number; total: number; read_at: string }
}

const target = useTarget()
const outbox = useOutboxTarget(target)

beforeAll(() =>
  target.sql('create table readings (id integer primary key, total integer not null, read_at datetime(3))'),
)

describe.each(['ANSI', 'HIGH_NOT_PRECEDENCE', 'NO_BACKSLASH_ESCAPES'])('%s', (mode) => {
  test('V4 a column that would round the time is refused, not rounded, in every SQL mode', async () => {
    const pool = poolOf(outbox.url(), {}, [`set session sql_mode = '${mode}'`])
    const db = new Kysely<Tables>({ dialect: new MysqlDialect({ pool }) })
    onTestFinished(() => db.destroy())
    await target.sql('delete from readings')
    await target.sql("insert into readings values (1, 1, '2026-01-31 12:00:00.001')")
    await expect(
      applyIfNewer(db, 'readings', {
        where: { id: 1 },
        column: 'read_at',
        at: '2026-01-31T12:00:00.001400Z',
        set: { total: 2 },
      }),
    ).rejects.toThrow(InvalidOptionError)
    const rows = await target.sql('select id, total, cast(read_at as char) as read_at from readings')
    expect(rows).toEqual([{ id: 1, total: 1, read_at: '2026-01-31 12:00:00.001' }])
  })
})
