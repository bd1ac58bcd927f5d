/** Further kinds of trouble share one count. */
const MAX_KINDS = 100
const OTHER_KINDS = 'other'

interface Episode {
  /** Occurrences since the last line. */
  count: number
  latest: Write
  timer: NodeJS.Timeout
}

/** Writes a line about trouble that has occurred `times` times since the previous line. */
type Write = (times: number) => void

/**
 * Keeps lasting trouble from flooding a log: the first occurrence of each kind is written at once; further occurrences
 * are written at intervals with a count, for as long as the trouble continues.
 */
export class RepeatedTrouble {
  readonly #everyMs: number
  readonly #episodes = new Map<string, Episode>()

  /** @param everyMs the minimum time between two lines of one kind, in milliseconds. @default 60_000 */
  constructor(everyMs = 60_000) {
    this.#everyMs = everyMs
  }

  /** Calls `write` now for the first occurrence of a kind, or later with a count. */
  report(kind: string, write: Write): void {
    const known = this.#episodes.has(kind) || this.#episodes.size < MAX_KINDS
    const name = known ? kind : OTHER_KINDS
    const episode = this.#episodes.get(name)
    if (episode !== undefined) {
      episode.count += 1
      episode.latest = write
      return
    }
    // Counting must not keep a process alive.
    const timer = setInterval(() => this.#writeCount(name), this.#everyMs).unref()
    this.#episodes.set(name, { count: 0, latest: write, timer })
    write(1)
  }

  /** Writes the count of a kind and forgets the kind: its next occurrence counts as the first. */
  over(kind: string): void {
    const episode = this.#episodes.get(kind)
    if (episode === undefined) return
    clearInterval(episode.timer)
    this.#episodes.delete(kind)
    if (episode.count > 0) episode.latest(episode.count)
  }

  /** Writes all counts and forgets all kinds. */
  end(): void {
    for (const kind of this.#episodes.keys()) this.over(kind)
  }

  #writeCount(kind: string): void {
    const episode = this.#episodes.get(kind)
    if (episode === undefined || episode.count === 0) return this.over(kind)
    const { count, latest } = episode
    episode.count = 0
    latest(count)
  }
}
