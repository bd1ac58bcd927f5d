// A consumer of what the relays have delivered: it reads the file from where it was acknowledged, handles each delivery
// by an inbox, and acknowledges it. The effect of a delivery is a row.
import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { createInbox } from '@txbox/inbox'
import { mysql } from '@txbox/mysql'
import { postgres } from '@txbox/postgres'
import { mortalMysqlPool } from './mortal-mysql-pool.ts'
import { configOf, Mortal, report, type ProgramConfig } from './mortal.ts'
import type { LogEntry } from './relay.ts'

export interface ConsumerConfig extends ProgramConfig {
  /** An append-only file with a line for each delivery that has been settled. */
  readonly acknowledged: string
}

const config = configOf<ConsumerConfig>()
const mortal = new Mortal(config.fate)
const handleOnce = config.url.startsWith('mysql:') ? onMysql() : onPostgres()

type Delivery = Extract<LogEntry, { what: 'delivery' }>

/** By the inbox, in a transaction that it opens. */
type HandleOnce = (delivery: Delivery) => Promise<unknown>

function onPostgres(): HandleOnce {
  const inbox = createInbox({ database: postgres({ db: mortal.pool(config, 2) }), consumer: 'receiver' })
  return (delivery) =>
    inbox.run({ id: delivery.id }, async (tx) => {
      mortal.reach('before the effect')
      await tx.query('insert into public.effects (name) values ($1)', [effectOf(delivery)])
      mortal.reach('after the effect')
    })
}

function onMysql(): HandleOnce {
  const database = mysql({ db: mortalMysqlPool(mortal, config, 2) })
  const inbox = createInbox({ database, consumer: 'receiver' })
  return (delivery) =>
    inbox.run({ id: delivery.id }, async (tx) => {
      mortal.reach('before the effect')
      await tx.query('insert into effects (name) values (?)', [effectOf(delivery)])
      mortal.reach('after the effect')
    })
}

function effectOf({ key, body }: Delivery): string {
  return `${key}:${body}`
}

function linesOf(file: string): string[] {
  return existsSync(file) ? readFileSync(file, 'utf8').split('\n').slice(0, -1) : []
}

/** Hands the delivery to the inbox until the inbox has settled it, as a broker would. */
async function handle(delivery: Delivery): Promise<void> {
  for (;;) {
    try {
      await handleOnce(delivery)
      return
    } catch (error) {
      report(`error ${String(error)}`)
    }
  }
}

report('started')
for (let next = linesOf(config.acknowledged).length; ;) {
  const deliveries = linesOf(config.log)
    .map((line) => JSON.parse(line) as LogEntry)
    .filter((entry) => entry.what === 'delivery')
  for (; next < deliveries.length; next += 1) {
    await handle(deliveries[next]!)
    mortal.reach('before the acknowledgement')
    appendFileSync(config.acknowledged, `${next}\n`)
    mortal.reach('after the acknowledgement')
  }
  await pause(5)
}
