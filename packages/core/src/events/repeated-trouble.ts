/** Further kinds of trouble share one count. */
const MAX_KINDS = 100
const OTHER_KINDS = 'other'

interface Episode {
  /** Occurrences since the last line. */
  count: number
  firstAt: Date
  lastAt: Date
  latest: Write
  timer: NodeJS.Timeout
}

/** The time of the first and of the last of several occurrences. */
interface Period {
  readonly firstAt: Date
  readonly lastAt: Date
}

/** Writes a line about trouble that has occurred `times` times since the previous line of its kind. */
type Write = (times: number, period: Period) => void

/**
 * Keeps lasting trouble from flooding a log: the first occurrence of each kind is written at once; further occurrences
 * are counted, and written at intervals for as long as the trouble continues. Counts are written in the order of their
 * last occurrences, and before the first occurrence of another kind.
 */
export class RepeatedTrouble {
  readonly #everyMs: number
  /** The kind with the latest occurrence is the last. */
  readonly #episodes = new Map<string, Episode>()

  /** @param everyMs the maximum time until a count is written, in milliseconds. @default 60_000 */
  constructor(everyMs = 60_000) {
    this.#everyMs = everyMs
  }

  /** Calls `write` now for the first occurrence of a kind, or later with a count. */
  report(kind: string, write: Write): void {
    const known = this.#episodes.has(kind) || this.#episodes.size < MAX_KINDS
    const name = known ? kind : OTHER_KINDS
    const episode = this.#episodes.get(name)
    const now = new Date()
    if (episode !== undefined) {
      if (episode.count === 0) episode.firstAt = now
      episode.count += 1
      episode.lastAt = now
      episode.latest = write
      this.#episodes.delete(name)
      this.#episodes.set(name, episode)
      return
    }
    this.flush()
    // Counting must not keep a process alive.
    const timer = setInterval(() => this.#tick(name), this.#everyMs).unref()
    const period = { firstAt: now, lastAt: now }
    this.#episodes.set(name, { count: 0, ...period, latest: write, timer })
    write(1, period)
  }

  /** Writes all counts, so that the log stays in the order of time if another line follows. */
  flush(): void {
    for (const episode of this.#episodes.values()) writeCount(episode)
  }

  /** Writes the count of a kind and forgets the kind: its next occurrence counts as the first. */
  over(kind: string): void {
    const episode = this.#episodes.get(kind)
    if (episode === undefined) return
    clearInterval(episode.timer)
    this.#episodes.delete(kind)
    writeCount(episode)
  }

  /** Writes all counts and forgets all kinds. */
  end(): void {
    for (const kind of this.#episodes.keys()) this.over(kind)
  }

  /** Writes all counts if trouble of this kind has gone on since its previous line, or within this interval; else forgets it. */
  #tick(kind: string): void {
    const episode = this.#episodes.get(kind)
    if (episode === undefined) return
    if (episode.count > 0) this.flush()
    else if (Date.now() - episode.lastAt.getTime() >= this.#everyMs) this.over(kind)
  }
}

function writeCount(episode: Episode): void {
  const { count, firstAt, lastAt, latest } = episode
  if (count === 0) return
  episode.count = 0
  latest(count, { firstAt, lastAt })
}
