/* Only PostgreSQL can wake a relay, with NOTIFY. */
import { exponentialBackoff } from '@txbox/core'
import type { Sleeper, WakeUps } from '@txbox/core/ports'
import { pause, propertyOf, unanswered, within } from '@txbox/core/internal'
import type { ListeningConnection } from '@txbox/sql/transactions'
import { translate } from '../connection/errors.ts'
import { listenStatements } from './listen-statements.ts'

/** The maximum time for the answer to a check. The interval of the checks is the limit if it is shorter. */
const MAX_ANSWER_MS = 5000

/** The maximum time to connect. A function of the user may wait forever if the connection is not refused. */
const CONNECT_TIMEOUT_MS = 10_000

/** The pauses before a failed connection is replaced. */
const PAUSES = exponentialBackoff({ minMs: 100, maxMs: 5000, attempts: 1000 })

function silent(ms: number): never {
  unanswered(ms, 'The connection that listens for new messages')
}

export type ConnectListening = (on: {
  readonly notified: (payload: unknown) => void
  readonly ended: (error: unknown) => void
}) => Promise<ListeningConnection>

interface ListenerSettings {
  readonly connect: ConnectListening
  readonly channel: string
  /** The payload that notifications must have. @default any */
  readonly payload?: string
  /** How often the connection is checked, because a connection whose server is gone may never report an error. */
  readonly checkIntervalMs: number
}

/** Listens on a channel, and replaces the connection when it fails. */
export class NotificationListener implements WakeUps {
  readonly #settings: ListenerSettings
  readonly #sleeper: Sleeper
  readonly #closing = new AbortController()

  constructor(settings: ListenerSettings, sleeper: Sleeper) {
    this.#settings = settings
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
        await pause(PAUSES.delayMs(++failures, Math.random), signal)
      }
    }
  }

  /** Listens until the connection fails, or the listener is closed. */
  async #listen(works: () => void): Promise<void> {
    const { channel, checkIntervalMs } = this.#settings
    const { signal } = this.#closing
    const answerMs = Math.min(checkIntervalMs, MAX_ANSWER_MS)
    const ended = new AbortController()
    const connection = await this.#connect((error) => ended.abort(error))
    try {
      await within(connection.query(listenStatements.listen(channel)), MAX_ANSWER_MS, silent)
      works()
      // Messages may have been stored while there was no listening connection.
      this.#sleeper.woken()
      const either = AbortSignal.any([signal, ended.signal])
      while (!either.aborted) {
        await pause(checkIntervalMs, either)
        if (!either.aborted) await assertListening(connection, channel, answerMs)
      }
      if (ended.signal.aborted) throw ended.signal.reason
    } finally {
      connection.close()
    }
  }

  async #connect(ended: (error: unknown) => void): Promise<ListeningConnection> {
    const { connect, payload: wanted } = this.#settings
    const notified = (payload: unknown): void => {
      if (wanted === undefined || payload === wanted) this.#sleeper.woken()
    }
    const connecting = connect({ notified, ended })
    try {
      return await within(connecting, CONNECT_TIMEOUT_MS, silent)
    } catch (error) {
      // The connection may still be established later, and must be closed then.
      connecting.then((late) => late.close()).catch(() => undefined)
      throw error
    }
  }
}

/** @throws when the connection does not answer in time, or does not listen. */
async function assertListening(
  connection: ListeningConnection,
  channel: string,
  answerMs: number,
): Promise<void> {
  const answer = await within(connection.query(listenStatements.alive(channel)), answerMs, silent)
  const rows = propertyOf(answer, 'rows')
  if (!Array.isArray(rows) || propertyOf(rows[0], 'listening') !== 'false') return
  throw new Error(
    'The connection does not listen, and new messages are only found by polling: a pooler in transaction mode has passed ' +
      "LISTEN to another connection. Pass the server's own address as the option 'listen' of postgres().",
  )
}
