import type { EmptyShards } from './empty-shards.ts'
import type { HeldShard } from './lease-keeper.ts'
import { parkedTurn } from './parked-turn.ts'
import { shardTurn } from './shard-turn.ts'
import { Suspects, suspectTurn } from './suspect-turn.ts'
import type { TurnResult, TurnTools } from './turn.ts'

export interface AgendaSettings {
  /** Parked messages are looked for at least this often, however much there is in the outbox. */
  readonly lookAfterMs: number
  readonly empty: EmptyShards
  readonly count: (result: TurnResult) => void
}

/**
 * What is done in which order for a shard that is ours: first what may have been the end of its last owner, then what is
 * parked and due, then the outbox.
 */
export class ShardAgenda {
  readonly #held: HeldShard
  readonly #tools: TurnTools
  readonly #settings: AgendaSettings
  #suspects: Suspects | undefined
  /** Something of its outbox has been asked for. */
  #begun = false
  /** Parked messages of it are due, as far as we know. */
  #due = true
  /** When we looked for them last, on the monotonic clock. */
  #lookedAt = -Infinity

  constructor(held: HeldShard, tools: TurnTools, settings: AgendaSettings) {
    this.#held = held
    this.#tools = tools
    this.#settings = settings
    this.#suspects = held.afterCrash ? new Suspects(tools.limits.messages) : undefined
  }

  /** The database has been asked whether parked messages are due. */
  told(due: boolean, askedAt: number): void {
    if (due) this.#due = true
    else this.#lookedAt = Math.max(this.#lookedAt, askedAt)
  }

  /** One turn: a batch at most. → whether there may be more to do at once. */
  async turn(): Promise<boolean> {
    const { lookAfterMs, empty } = this.#settings
    const startedAt = performance.now()
    if (this.#suspects !== undefined) return this.#suspectTurn(this.#suspects)
    // Also while the outbox is never empty, what is parked gets its turn.
    if (this.#due || startedAt - this.#lookedAt >= lookAfterMs) {
      const parked = await this.#parkedTurn(startedAt)
      if (!parked.empty && !parked.more) return false
    }
    const first = !this.#begun
    this.#begun = true
    const result = this.#counted(await shardTurn(this.#held, this.#tools, first))
    if (!result.empty) return result.more || this.#due
    if (this.#lookedAt !== startedAt) await this.#parkedTurn(startedAt)
    if (!this.#due) empty.seen([this.#held.shard], startedAt)
    return this.#due
  }

  async #suspectTurn(suspects: Suspects): Promise<boolean> {
    const { more } = this.#counted(await suspectTurn(this.#held, suspects, this.#tools))
    if (suspects.left === 0) this.#suspects = undefined
    return more
  }

  async #parkedTurn(now: number): Promise<TurnResult> {
    this.#lookedAt = now
    const result = this.#counted(await parkedTurn(this.#held, this.#tools))
    this.#due = result.more
    return result
  }

  #counted(result: TurnResult): TurnResult {
    this.#settings.count(result)
    return result
  }
}
