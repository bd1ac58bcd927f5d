/* Only PostgreSQL can wake those who wait for messages, with NOTIFY. */
import { InvalidOptionError, exponentialBackoff } from '@txbox/core'
import type { WakeUps } from '@txbox/core/ports'
import { pause, propertyOf, unanswered, within } from '@txbox/core/internal'
import type { ListeningConnection } from '@txbox/sql/transactions'
import { translate } from '../connection/errors.ts'
import type { ConnectListening } from './connect-listening.ts'
import { listenStatements } from './listen-statements.ts'

/** The maximum time for the answer to a check. The interval of the checks is the limit if it is shorter. */
const MAX_ANSWER_MS = 5000

/** The maximum time to connect. A function of the user may wait forever if the connection is not refused. */
const CONNECT_TIMEOUT_MS = 10_000

/** The pauses before a failed connection is replaced. */
const PAUSES = exponentialBackoff({ minMs: 100, maxMs: 5000, attempts: 1000 })

/** The pause before the next attempt where only another configuration helps. */
const HOPELESS_PAUSE_MS = 60_000

function silent(ms: number): never {
  unanswered(ms, 'The connection that listens for new messages')
}

export interface ListenerSettings {
  readonly connect: ConnectListening
  /** The channels to listen on, whenever a connection begins to listen: at least one. */
  readonly channels: () => readonly string[]
  /** How often the connection is checked, because a connection whose server is gone may never report an error. */
  readonly checkIntervalMs: number
  /**
   * Whether a connection through a pooler is closed before it listens. In transaction mode, the pooler would pass LISTEN to a
   * connection that others use too, and that would listen forever.
   */
  readonly avoidsPoolers: boolean
}

/** What a listener reports. */
export interface ListenerEvents {
  /** There may be new messages on this channel; without a channel, on any. */
  readonly woken: (channel?: unknown, payload?: unknown) => void
  readonly failed: (error: unknown) => void
}

/** Listens on channels, and replaces the connection when it fails. */
export class NotificationListener implements WakeUps {
  readonly #settings: ListenerSettings
  readonly #events: ListenerEvents
  readonly #closing = new AbortController()
  /** Sends LISTEN for channels that were added; absent while there is no connection. */
  #listenOnMore: (() => void) | undefined

  constructor(settings: ListenerSettings, events: ListenerEvents) {
    this.#settings = settings
    this.#events = events
    void this.#run()
  }

  close(): void {
    this.#closing.abort()
  }

  /** Must be called when there is another channel, or another sleeper waits for messages of a channel. */
  added(): void {
    this.#listenOnMore?.()
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing
    for (let failures = 0; !signal.aborted;) {
      try {
        await this.#listen(() => (failures = 0))
      } catch (error) {
        if (signal.aborted) return
        this.#events.failed(translate(error, 'listening for new messages'))
        const isHopeless = error instanceof PoolerInBetween || error instanceof InvalidOptionError
        await pause(isHopeless ? HOPELESS_PAUSE_MS : PAUSES.delayMs(++failures, Math.random), signal)
      }
    }
  }

  /** Listens until the connection fails, or the listener is closed. */
  async #listen(works: () => void): Promise<void> {
    const { avoidsPoolers, channels, checkIntervalMs } = this.#settings
    const { signal } = this.#closing
    const answerMs = Math.min(checkIntervalMs, MAX_ANSWER_MS)
    const ended = new AbortController()
    const connection = await this.#connect((error) => ended.abort(error))
    try {
      if (avoidsPoolers) await assertDirect(connection)
      await this.#listenOn(connection, new Set())
      works()
      const either = AbortSignal.any([signal, ended.signal])
      while (!either.aborted) {
        await pause(checkIntervalMs, either)
        if (!either.aborted) await assertListening(connection, channels()[0]!, answerMs)
      }
      if (ended.signal.aborted) throw ended.signal.reason
    } finally {
      this.#listenOnMore = undefined
      connection.close()
    }
  }

  /** Listens on all channels, and from now on also on those that are added. */
  async #listenOn(connection: ListeningConnection, listening: Set<string>): Promise<void> {
    const listen = async (): Promise<void> => {
      for (const channel of this.#settings.channels()) {
        if (listening.has(channel)) continue
        await within(connection.query(listenStatements.listen(channel)), MAX_ANSWER_MS, silent)
        listening.add(channel)
      }
      // Messages may have been stored while nothing listened on a channel, or before their sleeper was added.
      this.#events.woken()
    }
    // Before the first LISTEN is answered: a channel may be added meanwhile. If the connection does not answer, the next check
    // finds out. To listen twice on a channel changes nothing.
    this.#listenOnMore = () => void listen().catch(() => undefined)
    await listen()
  }

  async #connect(ended: (error: unknown) => void): Promise<ListeningConnection> {
    const notified = (payload: unknown, channel: unknown): void => this.#events.woken(channel, payload)
    const connecting = this.#settings.connect({ notified, ended })
    try {
      return await within(connecting, CONNECT_TIMEOUT_MS, silent)
    } catch (error) {
      // The connection may still be established later, and must be closed then.
      connecting.then((late) => late.close()).catch(() => undefined)
      throw error
    }
  }
}

class PoolerInBetween extends Error {}

/** @throws when the connection goes through a pooler, which tells its clients process ids of its own. */
async function assertDirect(connection: ListeningConnection): Promise<void> {
  const { processId } = connection
  if (typeof processId !== 'number') return
  const answer = await within(connection.query(listenStatements.processId), MAX_ANSWER_MS, silent)
  const rows = propertyOf(answer, 'rows')
  if (Array.isArray(rows) && propertyOf(rows[0], 'id') === String(processId)) return
  throw new PoolerInBetween(
    'The connection goes through a pooler, which may lose notifications, and new messages are only found by polling. Pass the ' +
      "server's own address as the option 'listen' of postgres(). Or do without notifications: wakeup: 'poll' of a relay or a local " +
      'consumer, notify: false of a queue.',
  )
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
