import { setTimeout as pause } from 'node:timers/promises'
import type { Waiter } from './waiter.ts'

const SILENCE_MS = 5000
const WARM_UP_MESSAGES = 20
/**
 * The longest wait for messages of the steady rate after the last one was sent. A message that has not arrived by then has the
 * latency Infinity.
 */
const LONGEST_WAIT_MS = 10_000
/** The silences of a round, after each of which a message is sent. */
const FIRST_MESSAGES = 3

export interface WaiterFigures {
  /** Milliseconds from the answer to COMMIT to the handler, after a silence. */
  readonly first: number[]
  /** The same of messages at a steady rate with random gaps. */
  readonly steady: number[]
  /** The share of a core that this process uses during the silences, without the work of the server. */
  readonly idle: number[]
}

export interface Load {
  readonly messagesPerSecond: number
  readonly seconds: number
}

/** Measures one round. The sender and the waiter share this process. */
export async function measureWaiter(waiter: Waiter, load: Load, into: WaiterFigures): Promise<void> {
  const stopwatch = new Stopwatch()
  const running = await waiter.start(() => stopwatch.got())
  const send = async (): Promise<number> => {
    const arrival = stopwatch.next()
    await running.send()
    const committedAt = performance.now()
    // A message may be seen before its sender has got the answer to COMMIT.
    return Math.max(0, (await arrival) - committedAt)
  }
  try {
    for (let n = 0; n < WARM_UP_MESSAGES; n++) await send()
    for (let n = 0; n < FIRST_MESSAGES; n++) {
      const before = process.cpuUsage()
      const silentFrom = performance.now()
      await pause(SILENCE_MS)
      const { user, system } = process.cpuUsage(before)
      into.idle.push((user + system) / 1000 / (performance.now() - silentFrom))
      into.first.push(await send())
    }
    const endsAt = performance.now() + load.seconds * 1000
    const sending: Promise<number>[] = []
    for (let next = performance.now(); next < endsAt;) {
      next += (-Math.log(1 - Math.random()) * 1000) / load.messagesPerSecond
      await pause(Math.max(0, next - performance.now()))
      sending.push(send())
    }
    // A peer that is slower than the rate would need many minutes for the rest.
    const late = pause(LONGEST_WAIT_MS).then(() => Infinity)
    into.steady.push(...(await Promise.all(sending.map((arrived) => Promise.race([arrived, late])))))
  } finally {
    await running.stop()
  }
}

/** Messages are taken for each other in the order of their arrival: they are all alike, and none is lost. */
class Stopwatch {
  readonly #waiting: ((at: number) => void)[] = []

  next(): Promise<number> {
    const { promise, resolve } = Promise.withResolvers<number>()
    this.#waiting.push(resolve)
    return promise
  }

  got(): void {
    this.#waiting.shift()?.(performance.now())
  }
}
