// A producer: each transaction raises an aggregate's number and publishes it, the aggregate's row locked first.
import { setTimeout as pause } from 'node:timers/promises'
import { createOutbox } from '@txbox/outbox'
import { mysql } from '@txbox/mysql'
import { postgres } from '@txbox/postgres'
import type { RowDataPacket } from 'mysql2/promise'
import { randomFrom } from '../../support/worlds/random.ts'
import { mortalMysqlPool } from './mortal-mysql-pool.ts'
import { configOf, Mortal, report, type ProgramConfig } from './mortal.ts'

export interface ProducerConfig extends ProgramConfig {
  readonly seed: number
  readonly keys: readonly string[]
  /** The number of transactions after which the program ends. */
  readonly transactions: number
  /** Between two of them, so that relays keep up. @default 0 */
  readonly pauseMs?: number
}

const config = configOf<ProducerConfig>()
const mortal = new Mortal(config.fate)
const random = randomFrom(config.seed)
const produce = config.url.startsWith('mysql:') ? await onMysql() : onPostgres()

report('started')
for (let done = 0; done < config.transactions; done += 1) {
  await produce(config.keys[Math.floor(random() * config.keys.length)]!)
  mortal.reach('after commit')
  if (config.pauseMs !== undefined) await pause(config.pauseMs)
}
process.exit(0)

/** One transaction. */
type Produce = (key: string) => Promise<void>

function onPostgres(): Produce {
  const pool = mortal.pool(config, 1)
  const outbox = createOutbox({ database: postgres() })
  return async (key) => {
    const client = await pool.connect()
    await client.query('begin')
    const { rows } = await client.query<{ n: number }>(
      'update counters set n = n + 1 where name = $1 returning n',
      [key],
    )
    mortal.reach('before publish')
    await outbox.publish(client, { topic: 't', key, payload: rows[0]?.n })
    mortal.reach('after publish')
    await client.query(random() < 0.2 ? 'rollback' : 'commit')
    client.release()
  }
}

async function onMysql(): Promise<Produce> {
  const connection = await mortalMysqlPool(mortal, config, 1).getConnection()
  // By this lock a test finds out whether the server still runs a statement of a dead program.
  await connection.query('select get_lock(?, 0)', [`producer ${process.pid}`])
  const outbox = createOutbox({ database: mysql() })
  return async (key) => {
    await connection.query('begin')
    await connection.query('update counters set n = n + 1 where name = ?', [key])
    const [rows] = await connection.query<RowDataPacket[]>('select n from counters where name = ?', [key])
    mortal.reach('before publish')
    await outbox.publish(connection, { topic: 't', key, payload: rows[0]?.['n'] as number })
    mortal.reach('after publish')
    await connection.query(random() < 0.2 ? 'rollback' : 'commit')
  }
}
