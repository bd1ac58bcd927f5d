/** Of large messages, fewer may be in flight: all of them are in memory. */
const IN_FLIGHT_BYTES = 33_554_432

interface Entry {
  readonly bytes: number
  readonly enter: () => void
  readonly fail: (error: unknown) => void
}

/** The messages that may wait for their confirmations at a time. The others wait in the order in which they came. */
export class InFlightWindow {
  readonly #mostMessages: number
  readonly #queue: Entry[] = []
  #messages = 0
  #bytes = 0

  constructor(mostMessages: number) {
    this.#mostMessages = mostMessages
  }

  /** Waits until a message of this size may be sent. `leave` must be called when it is confirmed. */
  async enter(bytes: number): Promise<void> {
    if (this.#queue.length === 0 && this.#hasRoomFor(bytes)) this.#take(bytes)
    else await new Promise<void>((enter, fail) => void this.#queue.push({ bytes, enter, fail }))
  }

  leave(bytes: number): void {
    this.#messages -= 1
    this.#bytes -= bytes
    for (
      let next = this.#queue[0];
      next !== undefined && this.#hasRoomFor(next.bytes);
      next = this.#queue[0]
    ) {
      this.#queue.shift()
      this.#take(next.bytes)
      next.enter()
    }
  }

  /** No message is sent any more. */
  fail(error: unknown): void {
    for (const { fail } of this.#queue.splice(0)) fail(error)
  }

  #hasRoomFor(bytes: number): boolean {
    if (this.#messages === 0) return true
    return this.#messages < this.#mostMessages && this.#bytes + bytes <= IN_FLIGHT_BYTES
  }

  #take(bytes: number): void {
    this.#messages += 1
    this.#bytes += bytes
  }
}
