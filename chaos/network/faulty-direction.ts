import type net from 'node:net'

/** The number of bytes that may wait here before the sender has to wait. */
const MAX_HELD_BYTES = 4 * 1024 * 1024

interface DirectionFaults {
  isHeld(): boolean
  delayMs(): number
  pass(bytes: Buffer, to: net.Socket): void
}

/** Bytes from the sender, and the time at which they are passed on. */
interface Arrival {
  readonly dueAt: number
  readonly what: Buffer | 'end' | 'reset'
}

/** The bytes of a connection in one direction, and how the sender ends them: in order, with delays and pauses. */
export class FaultyDirection {
  readonly #from: net.Socket
  readonly #to: net.Socket
  readonly #faults: DirectionFaults
  readonly #arrivals: Arrival[] = []
  #heldBytes = 0
  #timer: NodeJS.Timeout | undefined

  constructor(from: net.Socket, to: net.Socket, faults: DirectionFaults) {
    this.#from = from
    this.#to = to
    this.#faults = faults
    from.on('data', (bytes: Buffer) => this.#arrive(bytes))
    from.on('end', () => this.#arrive('end'))
    // The event 'close' reports the error.
    from.on('error', () => undefined)
    from.on('close', (failed) => {
      if (failed) this.#arrive('reset')
    })
    to.on('drain', () => this.flow())
    to.on('close', () => clearTimeout(this.#timer))
  }

  /** Forwards the bytes that are due. If possible, held bytes stay with the sender: a paused socket does not see its end. */
  flow(): void {
    clearTimeout(this.#timer)
    if (this.#faults.isHeld()) {
      this.#from.pause()
      return
    }
    const now = performance.now()
    while (this.#arrivals[0] !== undefined && this.#arrivals[0].dueAt <= now)
      this.#pass(this.#arrivals.shift()!)
    const next = this.#arrivals[0]
    if (next !== undefined && !this.#to.destroyed)
      this.#timer = setTimeout(() => this.flow(), Math.max(1, next.dueAt - now))
    if (this.#heldBytes > MAX_HELD_BYTES || this.#to.writableNeedDrain) this.#from.pause()
    else this.#from.resume()
  }

  #arrive(what: Arrival['what']): void {
    if (typeof what !== 'string') this.#heldBytes += what.length
    this.#arrivals.push({ dueAt: performance.now() + this.#faults.delayMs(), what })
    this.flow()
  }

  #pass({ what }: Arrival): void {
    if (typeof what !== 'string') this.#heldBytes -= what.length
    if (this.#to.destroyed) return
    if (what === 'end') this.#to.end()
    else if (what === 'reset') this.#to.resetAndDestroy()
    else this.#faults.pass(what, this.#to)
  }
}
