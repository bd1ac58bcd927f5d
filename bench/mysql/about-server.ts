import type { Pool, RowDataPacket } from 'mysql2/promise'
import { aboutMachine } from '../about-machine.ts'

/** Settings that determine speed or durability. Not every server has all of them. */
const SETTINGS = [
  'innodb_flush_log_at_trx_commit',
  'log_bin',
  'sync_binlog',
  'innodb_doublewrite',
  'innodb_flush_method',
  'innodb_buffer_pool_size',
  'innodb_redo_log_capacity',
  'innodb_log_file_size',
  'performance_schema',
]

/** Versions and settings, as pairs to print. */
export async function aboutServer(
  pool: Pool,
  engine: 'mysql' | 'mariadb',
): Promise<readonly (readonly [string, string])[]> {
  const [rows] = await pool.query<RowDataPacket[]>('show global variables')
  const setting = new Map(rows.map((row) => [String(row['Variable_name']), String(row['Value'])]))
  const version = setting.get('version') ?? 'unknown'
  if (/mariadb/i.test(version) !== (engine === 'mariadb')) {
    throw new Error(`--database ${engine}: the server at DATABASE_URL is of version ${version}.`)
  }
  const durable = setting.get('innodb_flush_log_at_trx_commit') === '1'
  return [
    [engine === 'mysql' ? 'MySQL' : 'MariaDB', version],
    ['commits', durable ? 'durable' : 'NOT DURABLE: the ratios below do not hold for durable ones'],
    [
      'settings',
      SETTINGS.filter((name) => setting.has(name))
        .map((name) => `${name}=${setting.get(name)}`)
        .join(' '),
    ],
    ...aboutMachine(['mysql2', 'kysely']),
  ]
}
