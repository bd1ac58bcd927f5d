import { setTimeout as pause } from 'node:timers/promises'
import { exponentialBackoff, type Sleeper, type WakeUps } from '@txbox/core'
import type { ListeningConnection } from '@txbox/handles'
import { translate } from './errors.ts'

/** A connection whose other end is gone may never tell: it is asked so often, and has as long to answer. */
const ALIVE_MS = 5000

/** Between two connections. */
const PAUSES = exponentialBackoff({ minMs: 100, maxMs: 5000, attempts: 1000 })

/** Opens a connection to listen on. */
export type ConnectListening = (on: {
  readonly notified: () => void
  readonly ended: (error: unknown) => void
}) => Promise<ListeningConnection>

/** Listens on a channel, on one connection after the other. */
export class NotificationListener implements WakeUps {
  readonly #connect: ConnectListening
  readonly #channel: string
  readonly #sleeper: Sleeper
  readonly #closing = new AbortController()

  constructor(connect: ConnectListening, channel: string, sleeper: Sleeper) {
    this.#connect = connect
    this.#channel = channel
    this.#sleeper = sleeper
    void this.#run()
  }

  close(): void {
    this.#closing.abort()
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing
    for (let failures = 0; !signal.aborted;) {
      try {
        await this.#listen(() => (failures = 0))
      } catch (error) {
        if (signal.aborted) return
        this.#sleeper.failed(translate(error, 'listening for new messages'))
        await pause(PAUSES.delayMs(++failures, Math.random), undefined, { signal }).catch(() => undefined)
      }
    }
  }

  /** Until the connection fails, or the listening is over. */
  async #listen(works: () => void): Promise<void> {
    const { signal } = this.#closing
    const ended = new AbortController()
    const connection = await this.#connect({
      notified: this.#sleeper.woken,
      ended: (error) => ended.abort(error),
    })
    try {
      await inTime(connection.query(`listen "${this.#channel}"`))
      works()
      // Whatever came while nobody listened.
      this.#sleeper.woken()
      const either = AbortSignal.any([signal, ended.signal])
      while (!either.aborted) {
        await pause(ALIVE_MS, undefined, { signal: either }).catch(() => undefined)
        if (!either.aborted) await inTime(connection.query('select 1'))
      }
      if (ended.signal.aborted) throw ended.signal.reason
    } finally {
      connection.close()
    }
  }
}

async function inTime(answer: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    const error = new Error(`The connection that listens has not answered within ${ALIVE_MS} ms.`)
    timer = setTimeout(() => reject(error), ALIVE_MS)
  })
  answer.catch(() => undefined)
  try {
    await Promise.race([answer, late])
  } finally {
    clearTimeout(timer)
  }
}
