import type { Pool } from 'pg'
import { aboutMachine } from '../about-machine.ts'

/** Settings that determine speed or durability. */
const SETTINGS = [
  'fsync',
  'synchronous_commit',
  'full_page_writes',
  'wal_sync_method',
  'shared_buffers',
  'max_wal_size',
  'autovacuum',
  'jit',
]

/** Versions and settings, as pairs to print. */
export async function aboutServer(pool: Pool): Promise<readonly (readonly [string, string])[]> {
  const { rows } = await pool.query<{ name: string; value: string }>(
    'select name, current_setting(name) as value from unnest($1::text[]) as given (name)',
    [['server_version', ...SETTINGS]],
  )
  const setting = new Map(rows.map((row) => [row.name, row.value]))
  const durable = setting.get('fsync') === 'on' && setting.get('synchronous_commit') === 'on'
  return [
    ['PostgreSQL', setting.get('server_version') ?? 'unknown'],
    ['commits', durable ? 'durable' : 'NOT DURABLE: the ratios below do not hold for durable ones'],
    ['settings', SETTINGS.map((name) => `${name}=${setting.get(name)}`).join(' ')],
    ...aboutMachine(['pg', 'kysely']),
  ]
}
