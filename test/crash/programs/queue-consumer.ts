// A consumer of a stored queue: it deletes each message in the transaction of its effect, which is a row.
import { createConsumer } from '@txbox/consumer'
import type { ConnectedDatabase } from '@txbox/core'
import { mysql } from '@txbox/mysql'
import { postgres } from '@txbox/postgres'
import { createQueue, queueSource, type Queue, type Received } from '@txbox/queue'
import { mortalMysqlPool } from './mortal-mysql-pool.ts'
import { configOf, Mortal, report, type ProgramConfig } from './mortal.ts'

export interface QueueConsumerConfig extends ProgramConfig {
  readonly queue: string
  /** Receives by createConsumer, instead of by the queue's own methods. */
  readonly runtime?: boolean
}

const config = configOf<QueueConsumerConfig>()
const mortal = new Mortal(config.fate)
const options = { name: config.queue, visibilityTimeoutMs: 1000, maxReceives: 100 }

/** Handles the next messages. */
const handleSome = config.url.startsWith('mysql:') ? onMysql() : onPostgres()

function onPostgres(): () => Promise<void> {
  const database = postgres({ db: mortal.pool(config, 3) })
  const queue = createQueue({ database, ...options })
  const handle = (received: Received): Promise<void> =>
    database.transact(async (tx) => {
      await queue.delete(received, { tx })
      mortal.reach('before the effect')
      await tx.query('insert into public.effects (name) values ($1)', [effectOf(received)])
      mortal.reach('after the effect')
    })
  if (config.runtime === true) {
    return consume({ queue, database }, (tx, name) =>
      tx.query('insert into public.effects (name) values ($1)', [name]),
    )
  }
  return () => receiveAndHandle(queue, handle)
}

function onMysql(): () => Promise<void> {
  const database = mysql({ db: mortalMysqlPool(mortal, config, 3) })
  const queue = createQueue({ database, ...options })
  const handle = (received: Received): Promise<void> =>
    database.transact(async (tx) => {
      await queue.delete(received, { tx })
      mortal.reach('before the effect')
      await tx.query('insert into effects (name) values (?)', [effectOf(received)])
      mortal.reach('after the effect')
    })
  if (config.runtime === true) {
    return consume({ queue, database }, (tx, name) =>
      tx.query('insert into effects (name) values (?)', [name]),
    )
  }
  return () => receiveAndHandle(queue, handle)
}

/** Starts a consumer, which never ends. */
function consume<Tx extends object>(
  { queue, database }: { queue: Queue<Tx>; database: ConnectedDatabase<Tx> },
  effect: (tx: Tx, name: string) => Promise<unknown>,
): () => Promise<void> {
  const consumer = createConsumer({
    source: queueSource(queue),
    database,
    ...{ name: 'orders', concurrency: 2, logger: false },
    handler: async (tx: Tx, message) => {
      mortal.reach('received')
      mortal.reach('before the effect')
      await effect(tx, String(message.payload))
      mortal.reach('after the effect')
    },
  })
  consumer.on('handled', () => mortal.reach('handled'))
  return async () => {
    await consumer.start()
    await new Promise(() => undefined)
  }
}

async function receiveAndHandle<Tx>(
  queue: Queue<Tx>,
  handle: (received: Received) => Promise<void>,
): Promise<void> {
  const received = await queue.receive({ limit: 2, waitMs: 1000 })
  mortal.reach('received')
  for (const each of received) {
    await handle(each)
    mortal.reach('handled')
  }
}

function effectOf({ key, message }: Received): string {
  return `${key ?? ''}:${String(message.payload)}`
}

report('started')
for (;;) {
  try {
    await handleSome()
  } catch (error) {
    report(`error ${String(error)}`)
  }
}
