/*
 * A service of the release before, which is loaded from its own folder: it creates the tables of its revision, and runs an
 * outbox, a relay, a collector and an operator on them.
 */
import { pathToFileURL } from 'node:url'
import { createPool } from 'mysql2'
import { Pool } from 'pg'
import type * as Gc from '@txbox/gc'
import type * as Mysql from '@txbox/mysql'
import type * as Outbox from '@txbox/outbox'
import type * as Postgres from '@txbox/postgres'
import type * as Relay from '@txbox/relay'

const [folder = '', engine = '', url = ''] = process.argv.slice(2)

async function load(name: string): Promise<unknown> {
  return import(pathToFileURL(`${folder}/packages/${name}/dist/index.js`).href)
}

const { createGarbageCollector } = (await load('gc')) as typeof Gc
const { createOutbox } = (await load('outbox')) as typeof Outbox
const { PermanentError, createDeadLetters, createRelay, publishEach } = (await load('relay')) as typeof Relay

async function connect(): Promise<{
  database: Gc.GarbageCollectorOptions['database']
  applied: readonly string[]
}> {
  if (engine === 'postgres') {
    const { migrate, postgres } = (await load('postgres')) as typeof Postgres
    const db = new Pool({ connectionString: url, max: 6 })
    return { applied: (await migrate(db)).applied, database: postgres({ db }) }
  }
  const { migrate, mysql } = (await load('mysql')) as typeof Mysql
  const db = createPool({ uri: url, connectionLimit: 6 }).promise()
  return { applied: (await migrate(db)).applied, database: mysql({ db }) }
}

function tell(message: object): void {
  process.send?.(message)
}

const { database, applied } = await connect()
const outbox = createOutbox({ database })
const letters = createDeadLetters({ database, by: 'the release before' })
const publisher = publishEach(async ({ id, topic }) => {
  if (topic === 'refused') throw new PermanentError('refused')
  tell({ published: id })
})
let relay = createRelay({ database, publisher, logger: false })
await relay.start()

const commands: Record<string, (argument: string) => Promise<unknown>> = {
  publish: (topic) =>
    database.transact(async (tx) => {
      const [stored] = await outbox.publish(tx, [{ topic, type: 'order.placed', key: 'k', payload: 1 }])
      return stored!.id
    }),
  /** A crash and a new start, on the tables as they are now. */
  async restart() {
    await relay.stop()
    relay = createRelay({ database, publisher, logger: false })
    await relay.start()
  },
  collect: () => createGarbageCollector({ database, deadLetterRetentionMs: 0, logger: false }).runOnce(),
  list: () => letters.list(),
  redrive: (id) => letters.redrive({ ids: [id] }),
}

process.on('message', ({ call, argument, n }: { call: string; argument: string; n: number }) => {
  commands[call]!(argument).then(
    (result) => tell({ n, result: result ?? null }),
    (error: unknown) => tell({ n, error: String(error) }),
  )
})
tell({ applied })
