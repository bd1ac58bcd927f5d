/** Kinds of trouble that are told apart at a time; more share one count. */
const KINDS = 100
const OTHER_KINDS = 'other'

interface Episode {
  /** Occurrences since the last line. */
  count: number
  latest: Write
  timer: NodeJS.Timeout
}

/** Writes a line about trouble that has come up so many times since the line before. */
type Write = (times: number) => void

/**
 * Keeps trouble that lasts from flooding a log: the first occurrence of each kind is written at once, what follows is
 * written once in a while with a count, for as long as it goes on.
 */
export class RepeatedTrouble {
  readonly #everyMs: number
  readonly #episodes = new Map<string, Episode>()

  /** @param everyMs the least time between two lines of one kind. @default 60_000 */
  constructor(everyMs = 60_000) {
    this.#everyMs = everyMs
  }

  /** Calls `write` now, or later with a count. */
  tell(kind: string, write: Write): void {
    const known = this.#episodes.has(kind) || this.#episodes.size < KINDS
    const name = known ? kind : OTHER_KINDS
    const episode = this.#episodes.get(name)
    if (episode !== undefined) {
      episode.count += 1
      episode.latest = write
      return
    }
    // Counting must not keep a process alive.
    const timer = setInterval(() => this.#look(name), this.#everyMs).unref()
    this.#episodes.set(name, { count: 0, latest: write, timer })
    write(1)
  }

  /** Writes what has been counted of a kind, and forgets it: its next occurrence is a first one. */
  over(kind: string): void {
    const episode = this.#episodes.get(kind)
    if (episode === undefined) return
    clearInterval(episode.timer)
    this.#episodes.delete(kind)
    if (episode.count > 0) episode.latest(episode.count)
  }

  /** Writes and forgets everything. */
  end(): void {
    for (const kind of this.#episodes.keys()) this.over(kind)
  }

  #look(kind: string): void {
    const episode = this.#episodes.get(kind)
    if (episode === undefined || episode.count === 0) return this.over(kind)
    const { count, latest } = episode
    episode.count = 0
    latest(count)
  }
}
