// A local consumer in a process of its own, whose effects are rows.
import { appendFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { mysql } from '@txbox/mysql'
import { postgres } from '@txbox/postgres'
import { atLeastOnce, createLocalConsumer } from '../../support/subjects/local-parts.ts'
import { randomFrom } from '../../support/worlds/random.ts'
import { mortalMysqlPool } from './mortal-mysql-pool.ts'
import { configOf, Mortal, report, type ProgramConfig } from './mortal.ts'

export interface LocalConsumerConfig extends ProgramConfig {
  /** Its name in the database. */
  readonly consumer: string
  readonly leaseMs?: number
  readonly handleTimeoutMs?: number
  readonly concurrency?: number
  readonly attempts?: number
  readonly batch?: { readonly maxSize: number; readonly lingerMs?: number }
  /** Whether the handlers run without a transaction of the consumer. */
  readonly atLeastOnce?: boolean
  /** The ids of messages whose handler ends the process. */
  readonly poison?: readonly string[]
  /** The handler of the first message waits until it is told to go on. */
  readonly gated?: boolean
  /** Handlers that are slow, that fail, or that take longer than `handleTimeoutMs`, at random. */
  readonly storm?: { readonly seed: number }
}

/** A line of the log: the handler of a message begins, or ends, or its result no longer counts. */
export interface LocalLogEntry {
  readonly what: 'begin' | 'end'
  readonly id: string
  readonly key: string
  readonly pid: number
  /** The clock that all processes of the machine share, in nanoseconds. */
  readonly at: string
}

interface Message {
  readonly id: string
  readonly key?: string | undefined
  readonly payload: unknown
}
type Effect<Tx> = (tx: Tx, name: string) => Promise<unknown>

const config = configOf<LocalConsumerConfig>()
const mortal = new Mortal(config.fate)
const random = randomFrom(config.storm?.seed ?? 0)
const open = Promise.withResolvers<void>()
process.on('message', () => open.resolve())

function log(what: 'begin' | 'end', { id, key }: Message): void {
  const entry: LocalLogEntry = {
    what,
    id,
    key: key ?? id,
    pid: process.pid,
    at: String(process.hrtime.bigint()),
  }
  appendFileSync(config.log, `${JSON.stringify(entry)}\n`)
}

async function stormy(signal: AbortSignal): Promise<void> {
  const chance = random()
  if (chance < 0.004) await sleep(60_000, undefined, { signal })
  await sleep(chance < 0.1 ? 60 + random() * 100 : random() * 30)
  if (chance > 0.9) throw new Error('the storm')
}

let calls = 0
async function handle<Tx>(effect: Effect<Tx>, tx: Tx, message: Message, signal: AbortSignal): Promise<void> {
  calls += 1
  log('begin', message)
  // From this moment the server may have rolled back, and another process may handle the message.
  let isOver = false
  const end = (): void => {
    if (!isOver) log('end', message)
    isOver = true
  }
  signal.addEventListener('abort', end)
  try {
    report(`handling ${message.id}`)
    mortal.reach('before the effect')
    await effect(tx, `${config.consumer} ${message.id}`)
    mortal.reach('after the effect')
    if (config.poison?.includes(message.id) === true) process.kill(process.pid, 'SIGKILL')
    if (config.gated === true && calls === 1) await open.promise
    if (config.storm !== undefined) await stormy(signal)
  } finally {
    end()
  }
}

/** @param pool runs the effects of handlers without a transaction. */
function handlersOf<Tx>(effect: Effect<Tx>, pool: Tx): object {
  if (config.atLeastOnce === true) {
    const made = (message: Message, { signal }: { signal: AbortSignal }): Promise<void> =>
      handle(effect, pool, message, signal)
    return { made: atLeastOnce(made) }
  }
  if (config.batch === undefined) {
    const made = (tx: Tx, message: Message, { signal }: { signal: AbortSignal }): Promise<void> =>
      handle(effect, tx, message, signal)
    return { made }
  }
  const made = async (
    tx: Tx,
    messages: readonly Message[],
    contexts: readonly { signal: AbortSignal }[],
  ): Promise<void> => {
    for (const [n, message] of messages.entries()) await handle(effect, tx, message, contexts[n]!.signal)
  }
  return { made }
}

function onPostgres(): object {
  const pool = mortal.pool(config, 12)
  const effect: Effect<{ query(text: string, values: unknown[]): Promise<unknown> }> = (tx, name) =>
    tx.query('insert into public.effects (name) values ($1)', [name])
  return { database: postgres({ db: pool }), handlers: handlersOf(effect, pool) }
}

function onMysql(): object {
  const pool = mortalMysqlPool(mortal, config, 12)
  const effect: Effect<{ query(text: string, values: unknown[]): Promise<unknown> }> = (tx, name) =>
    tx.query('insert into effects (name) values (?)', [name])
  return { database: mysql({ db: pool }), handlers: handlersOf(effect, pool) }
}

const consumer = createLocalConsumer({
  ...(config.url.startsWith('mysql:') ? onMysql() : onPostgres()),
  consumer: config.consumer,
  concurrency: config.concurrency ?? 2,
  leaseMs: config.leaseMs ?? 2000,
  ...(config.batch === undefined ? {} : { batch: config.batch }),
  ...(config.handleTimeoutMs === undefined ? {} : { handleTimeoutMs: config.handleTimeoutMs }),
  pollIntervalMs: { min: 5, max: 50 },
  retry: { attempts: config.attempts ?? 1000, delayMs: () => 10 },
  logger: false,
})
consumer.on('handled', ({ message }) => {
  mortal.reach('handled')
  report(`handled ${message.id}`)
})
consumer.on('retried', ({ message, error }) => report(`retried ${message.id} ${String(error)}`))
consumer.on('dead-lettered', ({ message, error }) => report(`dead ${message.id} ${String(error)}`))
consumer.on('lost', ({ message }) => report(`lost ${message.id}`))
consumer.on('error', ({ error }) => report(`error ${String(error)}`))
consumer.on('unavailable', ({ error }) => report(`unavailable ${String(error)}`))
await consumer.start()
report('started')
