const PLAIN_EVERY_MS = 3000

/** One line that is written over on a terminal; elsewhere a new line every few seconds. */
export class Progress {
  readonly #out: NodeJS.WriteStream
  #plainAt = -Infinity

  constructor(out: NodeJS.WriteStream) {
    this.#out = out
  }

  show(share: number, text: string): void {
    if (this.#out.isTTY) {
      const room = (this.#out.columns || 80) - 1
      const width = Math.min(30, Math.max(4, room - text.length - 2))
      const full = Math.round(Math.min(1, share) * width)
      const line = `${'█'.repeat(full)}${'░'.repeat(width - full)}  ${text}`
      this.#out.write(`\r${line.slice(0, room)}\x1b[K`)
    } else if (performance.now() - this.#plainAt >= PLAIN_EVERY_MS) {
      this.#plainAt = performance.now()
      this.#out.write(`${`${Math.floor(share * 100)}%`.padStart(4)}  ${text}\n`)
    }
  }

  /** Clears the line for what comes after it. */
  end(): void {
    if (this.#out.isTTY) this.#out.write('\r\x1b[K')
  }
}
