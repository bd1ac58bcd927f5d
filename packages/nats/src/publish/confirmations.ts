/** The answer to a message, or the reason for which there is none. */
export type Confirmation =
  /** The answer of the program that listens on the subject: JetStream, if a stream takes the subject. */
  | { readonly data: Uint8Array }
  /** Nobody listens on the subject. */
  | 'no-responders'
  /** The user may not publish to the subject. */
  | 'forbidden'
  /** Nobody has answered in time, while messages of other subjects were confirmed. */
  | 'late'

interface Pending {
  readonly token: string
  readonly subject: string
  readonly resolve: (confirmation: Confirmation) => void
  readonly reject: (error: unknown) => void
}

/** The messages of a subject that wait for confirmations, in the order in which they were sent. */
interface Waiting {
  readonly pending: Set<Pending>
  /** When the first of them was sent, or when the last confirmation of this subject came. */
  movedAt: number
}

/** An answer as the client passes it on. */
interface Reply {
  readonly subject: string
  readonly data: Uint8Array
  readonly headers?: { readonly code: number } | undefined
}

/** The messages of a connection that wait for their confirmations. */
export class Confirmations {
  readonly #inbox: string
  readonly #timeoutMs: number
  readonly #failed: (error: Error) => void
  readonly #pending = new Map<string, Pending>()
  readonly #waiting = new Map<string, Waiting>()
  #tokens = 0
  /** When the last confirmation of any subject came. */
  #confirmedAt = -Infinity
  #timer: NodeJS.Timeout | undefined

  /**
   * @param inbox the subject below which confirmations arrive.
   * @param how `timeoutMs` is how long a subject may be without a confirmation. `failed` is called when nothing was confirmed for as long.
   */
  constructor(inbox: string, how: { readonly timeoutMs: number; readonly failed: (error: Error) => void }) {
    this.#inbox = inbox
    this.#timeoutMs = how.timeoutMs
    this.#failed = how.failed
  }

  /** @returns the subject for the answer to a message that is sent now, and its confirmation. */
  expect(subject: string): { readonly reply: string; readonly confirmation: Promise<Confirmation> } {
    const token = (this.#tokens += 1).toString(36)
    const { promise, resolve, reject } = Promise.withResolvers<Confirmation>()
    const pending: Pending = { token, subject, resolve, reject }
    this.#pending.set(token, pending)
    const waiting = this.#waiting.get(subject)
    if (waiting === undefined) {
      this.#waiting.set(subject, { pending: new Set([pending]), movedAt: performance.now() })
    } else waiting.pending.add(pending)
    this.#timer ??= setTimeout(() => this.#look(), this.#timeoutMs)
    return { reply: `${this.#inbox}.${token}`, confirmation: promise }
  }

  received({ subject, data, headers }: Reply): void {
    const pending = this.#pending.get(subject.slice(this.#inbox.length + 1))
    // A message that was given up may be confirmed late.
    if (pending === undefined) return
    this.#confirmedAt = performance.now()
    const hasNoResponders = headers?.code === 503 && data.length === 0
    this.#settle(pending, hasNoResponders ? 'no-responders' : { data })
  }

  /** Called when the server has refused a message to this subject: the earliest of them, as the server answers in order. */
  forbid(subject: string): void {
    const [first] = this.#waiting.get(subject)?.pending ?? []
    if (first !== undefined) this.#settle(first, 'forbidden')
  }

  fail(error: unknown): void {
    clearTimeout(this.#timer)
    for (const { reject } of this.#pending.values()) reject(error)
    this.#pending.clear()
    this.#waiting.clear()
  }

  #settle(pending: Pending, confirmation: Confirmation): void {
    const { token, subject } = pending
    this.#pending.delete(token)
    const waiting = this.#waiting.get(subject)!
    waiting.pending.delete(pending)
    waiting.movedAt = performance.now()
    if (waiting.pending.size === 0) this.#waiting.delete(subject)
    if (this.#pending.size === 0) {
      clearTimeout(this.#timer)
      this.#timer = undefined
    }
    pending.resolve(confirmation)
  }

  /** Answers may have arrived that this process was too busy to read: they are read first. */
  #look(): void {
    setImmediate(() => {
      this.#timer = undefined
      if (this.#pending.size > 0) this.#giveUp()
    })
  }

  #giveUp(): void {
    const now = performance.now()
    const dueAt = now - this.#timeoutMs
    for (const [subject, { pending, movedAt }] of this.#waiting) {
      if (movedAt > dueAt) continue
      if (this.#confirmedAt <= dueAt) {
        this.#failed(new Error(`it confirmed nothing within ${this.#timeoutMs} ms`))
        return
      }
      for (const { token, resolve } of pending) {
        this.#pending.delete(token)
        resolve('late')
      }
      this.#waiting.delete(subject)
    }
    const movedAt = Math.min(...[...this.#waiting.values()].map((waiting) => waiting.movedAt))
    if (movedAt === Infinity) return
    this.#timer = setTimeout(() => this.#look(), Math.max(1, movedAt + this.#timeoutMs - now))
  }
}
