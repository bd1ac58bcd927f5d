import { chmodSync, mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { migrate as migrateMysql } from '@txbox/mysql'
import { migrate as migratePostgres } from '@txbox/postgres'
import mysql2 from 'mysql2/promise'
import { Pool } from 'pg'
import { createChaosTables } from '../database/chaos-tables.ts'
import { withDirectConnection } from '../database/direct-connection.ts'
import type { Engine } from '../database/engine.ts'
import { startChaosBroker, type ChaosBroker } from '../servers/chaos-broker.ts'
import { startChaosDatabase, type ChaosDatabase } from '../servers/chaos-database.ts'
import { MOST_CONNECTIONS } from '../workers/limits.ts'

/** The servers and the folder of one run. */
export interface Stand {
  readonly folder: string
  readonly database: ChaosDatabase
  readonly broker: ChaosBroker
  close(keep: boolean): Promise<void>
}

/** Room for the connections of the driver, and for those of processes that have just been killed. */
const SPARE_CONNECTIONS = 40

export async function startStand(engine: Engine): Promise<Stand> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'txbox-chaos-'))
  // The servers may run as another user, who must be able to enter the folder.
  chmodSync(folder, 0o755)
  const [database, broker] = await Promise.all([
    startChaosDatabase(engine, { folder, maxConnections: MOST_CONNECTIONS + SPARE_CONNECTIONS }),
    startChaosBroker({ folder }),
  ])
  // On PostgreSQL the workers own their tables; on MySQL triggers, and users for the relays, need an administrator.
  const ownerUrl = engine === 'postgres' ? database.url : database.directUrl()
  await migrate(engine, ownerUrl)
  await withDirectConnection(ownerUrl, (sql) => createChaosTables(engine, sql))
  return {
    folder,
    database,
    broker,
    close: async (keep) => {
      await Promise.allSettled([database.stop(), broker.stop()])
      if (!keep) await rm(folder, { recursive: true, force: true })
    },
  }
}

async function migrate(engine: Engine, url: string): Promise<void> {
  if (engine === 'postgres') {
    const pool = new Pool({ connectionString: url, max: 1 })
    await migratePostgres(pool)
    await pool.end()
    return
  }
  const pool = mysql2.createPool({ uri: url, connectionLimit: 1 })
  await migrateMysql(pool)
  await pool.end()
}
