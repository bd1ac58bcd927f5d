import type { PollPace } from './poll-pace.ts'

export interface Counts {
  readonly published: number
  readonly parked: number
  readonly deadLettered: number
}

/** The results of a relay so far, and their effect on the pace of the poller. */
export class Progress {
  readonly #pace: PollPace
  #counts: Counts = { published: 0, parked: 0, deadLettered: 0 }
  #drains = 0

  constructor(pace: PollPace) {
    this.#pace = pace
  }

  get counts(): Counts {
    return this.#counts
  }

  /** The number of messages that were removed from the tables or became dead letters. */
  get moved(): number {
    return this.#counts.published + this.#counts.deadLettered
  }

  /**
   * Whether messages arrive so steadily that the poller waits longer, so that several messages share a poll, a read and
   * a settlement. A drain does not wait.
   */
  get gathers(): boolean {
    return this.#drains === 0 && this.#pace.isGathering
  }

  settled({ published, parked, deadLettered }: Counts): void {
    this.#counts = {
      published: this.#counts.published + published,
      parked: this.#counts.parked + parked,
      deadLettered: this.#counts.deadLettered + deadLettered,
    }
    if (published > 0) this.#pace.moved(published)
  }

  drainBegan(): void {
    this.#drains++
  }

  drainEnded(): void {
    this.#drains--
  }
}
