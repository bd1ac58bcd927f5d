import { createInbox, type Msg, type NatsConnection, type Subscription } from '@nats-io/transport-node'
import type { PullLimits } from './consumer-declaration.ts'

/** How long the server keeps a request for messages. */
const EXPIRES_MS = 30_000
/** How often the server shows that it still has the request. */
const HEARTBEAT_MS = 5000
/** A request without a sign from the server for this time is taken for lost: another server may have taken over the consumer. */
const SILENCE_MS = 12_500
/** A request with a shorter life has no heartbeats. */
const SHORTEST_WITH_HEARTBEAT_MS = 2 * HEARTBEAT_MS
const NANOSECONDS = 1_000_000

/** The reason for which a request for messages has ended. */
export type PullEnd =
  /** All messages came, or the time of the request is over. */
  | 'over'
  /** The consumer or its stream is gone. */
  | 'gone'
  /** The server refuses the request. */
  | { readonly refusal: string }

interface PullHow {
  /** The subject of requests for messages of the consumer. */
  readonly subject: string
  readonly batch: number
  readonly limits: PullLimits
  readonly inboxPrefix: string
  readonly received: (message: Msg) => void
  readonly ended: (end: PullEnd) => void
}

/** One request for messages. The server sends them one by one as they come, up to the number that was asked for. */
export class Pull {
  readonly #how: PullHow
  readonly #subscription: Subscription
  readonly #inbox: string
  #left: number
  #silence: NodeJS.Timeout | undefined
  #isOver = false

  constructor(nc: NatsConnection, how: PullHow) {
    this.#how = how
    this.#left = Math.min(how.batch, how.limits.batch)
    this.#inbox = createInbox(how.inboxPrefix)
    this.#subscription = nc.subscribe(this.#inbox, {
      callback: (error, message) => {
        if (error === null) this.#got(message)
        else this.#end({ refusal: error.message })
      },
    })
    const expiresMs = Math.min(EXPIRES_MS, how.limits.expiresMs)
    const request = {
      batch: this.#left,
      expires: expiresMs * NANOSECONDS,
      ...(expiresMs >= SHORTEST_WITH_HEARTBEAT_MS && { idle_heartbeat: HEARTBEAT_MS * NANOSECONDS }),
    }
    nc.publish(how.subject, JSON.stringify(request), { reply: this.#inbox })
    this.#wait()
  }

  /** The number of messages that may still come. */
  get left(): number {
    return this.#isOver ? 0 : this.#left
  }

  /** Cancels the request. Resolves when no message comes any more; messages that come until then are received. */
  async cancel(): Promise<void> {
    if (this.#isOver) return
    this.#isOver = true
    clearTimeout(this.#silence)
    // A connection that has ended brings no message either.
    await this.#subscription.drain().catch(() => undefined)
  }

  /** The connection has ended. */
  abandon(): void {
    this.#isOver = true
    clearTimeout(this.#silence)
  }

  #got(message: Msg): void {
    this.#wait()
    // A message of the consumer keeps its own subject.
    if (message.subject !== this.#inbox || message.headers === undefined || message.headers.code === 0) {
      this.#left -= 1
      this.#how.received(message)
      if (this.#left === 0) this.#end('over')
      return
    }
    const { code, description } = message.headers
    if (code === 100) return
    if (code === 404 || code === 408) this.#end('over')
    else if (code === 503 || (code === 409 && /deleted/i.test(description))) this.#end('gone')
    else this.#end({ refusal: `${description} (${code})` })
  }

  #wait(): void {
    if (this.#isOver) return
    clearTimeout(this.#silence)
    this.#silence = setTimeout(() => this.#end('over'), SILENCE_MS)
  }

  #end(end: PullEnd): void {
    if (this.#isOver) return
    this.#isOver = true
    clearTimeout(this.#silence)
    this.#subscription.unsubscribe()
    this.#how.ended(end)
  }
}
