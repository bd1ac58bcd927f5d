import { setTimeout as pause } from 'node:timers/promises'
import { txboxTables, type TxboxTable } from '../database/chaos-tables.ts'
import {
  connectDirectly,
  withDirectConnection,
  type DirectConnection,
} from '../database/direct-connection.ts'
import type { Engine } from '../database/engine.ts'
import type { Sql } from '../database/sql.ts'
import type { Draw } from '../draw.ts'
import { CLIENT } from '../servers/database-engine.ts'
import { localBeside } from './beside.ts'
import type { Fault, Surroundings } from './fault.ts'

export const backendsTerminated: Fault = {
  about: 'an administrator terminates sessions of the workers',
  harms: 'nothing',
  async inject({ engine, database }, draw) {
    const share = draw.pick([0.2, 0.5, 1])
    return withDirectConnection(database.directUrl(), async (sql) => {
      const sessions = await sql.query(
        engine === 'postgres'
          ? `select pid as id from pg_stat_activity where usename = '${CLIENT}' order by pid`
          : `select id as id from information_schema.processlist
             where user = '${CLIENT}' or user like 'relay-%' order by id`,
      )
      const victims = sessions.filter(() => draw.chance(share))
      for (const { id } of victims) {
        // The transaction may have ended by itself.
        await sql
          .query(engine === 'postgres' ? `select pg_terminate_backend(${Number(id)})` : `kill ${Number(id)}`)
          .catch(() => undefined)
      }
      return `${victims.length} of ${sessions.length} sessions terminated`
    })
  },
}

export const databaseRestart: Fault = {
  about: 'the database is stopped at once and started again',
  harms: 'database',
  group: 'server',
  weight: 0.7,
  async inject({ database }) {
    await database.restart()
    return 'the database restarted'
  },
}

export const failover: Fault = {
  about: 'the database fails over to an asynchronous standby that is behind',
  harms: 'database',
  group: 'server',
  async inject({ database, failOver, leaseMs }, draw) {
    const ms = draw.integer(100, leaseMs * 2)
    await database.holdReplication()
    await pause(ms)
    await failOver()
    return `failed over to a standby ${ms} ms behind`
  },
}

export const failoverInFlight: Fault = {
  about: 'the same while the broker does not answer: confirms come after the failover',
  harms: 'database',
  group: 'server',
  async inject({ database, broker, failOver, leaseMs }, draw) {
    broker.proxy.silence('toClient', true)
    const ms = draw.integer(200, Math.round(leaseMs / 3))
    try {
      await database.holdReplication()
      await pause(ms)
      await failOver()
      // The new primary assigns the lost numbers again.
      await pause(draw.integer(200, 800))
    } finally {
      broker.proxy.silence('toClient', false)
    }
    return `failed over to a standby ${ms} ms behind, with calls in flight`
  },
}

export const longTransaction: Fault = {
  about: 'a transaction that has written to the outbox stays open, and pins the horizon of vacuum',
  harms: 'nothing',
  async inject(on, draw) {
    const ms = draw.integer(2000, 8000)
    const { outbox } = txboxTables(on.engine)
    const statements = [
      // At REPEATABLE READ, MySQL would keep a lock on each row that the statement has read.
      ...(on.engine === 'postgres' ? [] : ['set transaction isolation level read committed']),
      'begin',
      `delete from ${outbox} where id = 'none of these'`,
    ]
    return held(on, statements, ms, async () => `a transaction open for ${ms} ms`)
  },
}

export const lockedTable: Fault = {
  about: 'another session locks a whole table of txbox',
  harms: 'database',
  group: 'lock',
  async inject(on, draw) {
    const table = draw.pick(['outbox', 'leases', 'parked', 'inbox', 'versions', 'queue', 'queue'] as const)
    const ms = draw.integer(300, 4000)
    const tables = [table, ...localTable(draw)].map((name) => txboxTables(on.engine)[name])
    const lock = on.engine === 'postgres' ? ['begin', lockOf(on.engine, tables)] : [lockOf(on.engine, tables)]
    return held(on, lock, ms, async () => `${tables.join(' and ')} locked for ${ms} ms`)
  },
}

/** A table of local consumers beside another one; none at times. Drawn after everything else, as `localBeside` is. */
function localTable(draw: Draw): readonly TxboxTable[] {
  return draw.chance(0.4) ? [draw.pick(['localOutbox', 'localParked'] as const)] : []
}

function lockOf(engine: Engine, tables: readonly string[]): string {
  return engine === 'postgres'
    ? `lock table ${tables.join(', ')} in access exclusive mode`
    : `lock tables ${tables.map((table) => `${table} write`).join(', ')}`
}

export const settlementDelayed: Fault = {
  about:
    'a settlement waits in the database until the shard, or the message of the queue, has gone to another',
  harms: 'database',
  group: 'lock',
  async inject({ engine, database, fleet, leaseMs }, draw) {
    const tables = txboxTables(engine)
    const [kind, table] = draw.chance(0.25)
      ? (['queue-worker', tables.queue] as const)
      : (['relay', tables.outbox] as const)
    const slot = draw.pick(fleet.slotsOf(kind))
    const untilMs = draw.integer(100, 500)
    const ms = Math.round(leaseMs * (1.2 + draw.next() / 2)) + 1000
    const slots = [slot, ...localBeside(fleet, draw)]
    const locked = slots.length > 1 ? [table, tables.localOutbox] : [table]
    const processes = slots.map((one) => fleet.process(one))
    // On MySQL, a lock that lets others read also holds up a settlement, and does not lock the tables that triggers write.
    const statements =
      engine === 'postgres'
        ? ['begin', lockOf(engine, locked)]
        : [`flush tables ${locked.join(', ')} with read lock`]
    return withDirectConnection(database.directUrl(), async (sql) => {
      const isLocked = await lockedWithin(sql, engine, database.directUrl(), statements)
      // The settlement of the messages published so far waits for the lock.
      await pause(untilMs)
      for (const process of processes) process.signal('SIGSTOP')
      await pause(ms)
      if (isLocked) await sql.query(engine === 'postgres' ? 'commit' : 'unlock tables')
      await pause(300)
      for (const process of processes) process.signal('SIGCONT')
      const lock = isLocked ? 'while the settlements waited for a lock' : `without a lock: ${NOT_HELD}`
      return `${slots.join(' and ')} stopped for ${ms} ms ${lock}`
    })
  },
}

export const tableRewritten: Fault = {
  about: 'VACUUM FULL or OPTIMIZE TABLE: every row moves',
  harms: 'database',
  group: 'lock',
  async inject({ engine, database }, draw) {
    const table = draw.pick(['outbox', 'outbox', 'parked', 'leases', 'inbox', 'queue', 'queue'] as const)
    const tables = [table, ...localTable(draw)].map((name) => txboxTables(engine)[name])
    await withDirectConnection(database.directUrl(), async (sql) => {
      for (const one of tables) {
        await sql.query(engine === 'postgres' ? `vacuum full ${one}` : `optimize table ${one}`)
      }
    })
    return `${tables.join(' and ')} rewritten`
  },
}

export const connectionLimit: Fault = {
  about: 'others take all connections that the server has left',
  harms: 'database',
  group: 'server',
  async inject({ database }, draw) {
    const ms = draw.integer(500, 4000)
    const open: DirectConnection[] = []
    try {
      // Every session of the workers is cut, so that they have to ask for new ones.
      database.proxy.cutAll()
      for (;;) {
        const connection = await connectDirectly(database.url).catch(() => undefined)
        if (connection === undefined) break
        open.push(connection)
      }
      await pause(ms)
    } finally {
      await Promise.all(open.map((connection) => connection.close()))
    }
    return `the connection limit reached for ${ms} ms, with ${open.length} connections of others`
  },
}

/** Runs statements on a separate connection, and holds their locks for a while. */
async function held(
  { engine, database }: Surroundings,
  statements: readonly string[],
  ms: number,
  describe: () => Promise<string>,
): Promise<string> {
  return withDirectConnection(database.directUrl(), async (sql) => {
    if (!(await lockedWithin(sql, engine, database.directUrl(), statements))) return NOT_HELD
    await pause(ms)
    return describe()
  })
}

const LOCK_LIMIT_MS = 6000
const LOCK_PAUSE_MS = 50
const NOT_HELD = `locks that could not be taken within ${LOCK_LIMIT_MS} ms, and held nothing`
/** A deadlock, a lock timeout or a statement that was ended, on PostgreSQL and on MySQL and MariaDB. */
const NOT_LOCKED: ReadonlySet<unknown> = new Set(['40P01', '55P03', '57014', 1205, 1213, 1317])

/**
 * Whether the statements took their locks. They may deadlock with the statements of the workers, and are then tried again. The time is
 * limited: on MySQL, LOCK TABLES also locks the tables that triggers write, and where it would deadlock, it releases everything and
 * begins again by itself, without end beside workers that go on.
 */
async function lockedWithin(
  sql: Sql,
  engine: Engine,
  url: string,
  statements: readonly string[],
): Promise<boolean> {
  const deadline = performance.now() + LOCK_LIMIT_MS
  const [session] = await sql.query(
    engine === 'postgres' ? 'select pg_backend_pid() as id' : 'select connection_id() as id',
  )
  const end = async (): Promise<void> => {
    const id = Number(session?.['id'])
    const statement = engine === 'postgres' ? `select pg_cancel_backend(${id})` : `kill query ${id}`
    // Another fault may have stopped the server, which ends the statement as well.
    await withDirectConnection(url, (other) => other.query(statement)).catch(() => undefined)
  }
  while (performance.now() < deadline) {
    let ended: Promise<void> | undefined
    const timer = setTimeout(() => {
      ended = end()
    }, deadline - performance.now())
    try {
      if (await areTaken(sql, statements)) return true
    } finally {
      clearTimeout(timer)
      await ended
    }
    await pause(LOCK_PAUSE_MS)
  }
  return false
}

async function areTaken(sql: Sql, statements: readonly string[]): Promise<boolean> {
  try {
    for (const statement of statements) await sql.query(statement)
    return true
  } catch (error) {
    const { code, errno } = Object(error) as { code?: unknown; errno?: unknown }
    if (!NOT_LOCKED.has(errno) && !NOT_LOCKED.has(code)) throw error
    await sql.query('rollback')
    return false
  }
}
