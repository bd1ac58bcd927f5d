import type { IncomingMessage } from 'node:http'

/** How much of the body of an accepted request is read, and for how long. */
const DRAINED_BYTES = 65_536
const DRAIN_MS = 5000
/** Of more answers, the one that has been read for the longest time ends with its connection. */
const MOST_ANSWERS = 64

/**
 * Answers to accepted requests, whose bodies are read so that their connections can be used again. Their requests hold no slot any more,
 * so that endpoints that accept at once and never end their answers would otherwise collect connections.
 */
export class DrainedAnswers {
  readonly #answers = new Set<IncomingMessage>()

  /** Reads the rest of an answer. An answer that is long or slow ends with its connection. */
  drain(answer: IncomingMessage): void {
    let bytes = 0
    const end = (): void => void answer.destroy()
    const timer = setTimeout(end, DRAIN_MS).unref()
    answer.on('data', (chunk: Buffer) => {
      bytes += chunk.byteLength
      if (bytes > DRAINED_BYTES) end()
    })
    answer.on('error', () => undefined)
    answer.on('close', () => {
      clearTimeout(timer)
      this.#answers.delete(answer)
    })
    this.#answers.add(answer)
    if (this.#answers.size <= MOST_ANSWERS) return
    const [oldest] = this.#answers
    this.#answers.delete(oldest!)
    oldest!.destroy()
  }
}
