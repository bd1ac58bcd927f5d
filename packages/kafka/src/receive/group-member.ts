import { pause, within } from '@txbox/core/internal'
import { Consumer, type ConsumerGroupJoinPayload } from '@platformatic/kafka'
import { errorCodesIn } from '../connection/client-errors.ts'
import { clientOptions, type ClientSettings } from '../connection/client-settings.ts'
import { breakConnections, watchConnections } from '../connection/watched-connections.ts'

/** How much longer than a rebalance a request may take. */
const ANSWER_MS = 5000
const MOST_BETWEEN_HEARTBEATS_MS = 3000
const METADATA_AGE_MS = 300_000
/** How long leaving the group may take. Afterwards, the group waits until the session of the member has expired. */
const LEAVE_MS = 2000
const LEAVE_ATTEMPTS = 4

/** Errors after which joining again helps: the group is rebalanced meanwhile, or Kafka does not know the member. */
const JOIN_AGAIN: ReadonlySet<number> = new Set([14, 15, 16, 22, 25, 27, 79])
const JOIN_PAUSE_MS = 100

/** The group, and how its members are watched. */
export interface GroupSettings {
  readonly groupId: string
  readonly topics: readonly string[]
  readonly sessionTimeoutMs: number
}

/** The partitions of this member from now on. */
export interface Assignment {
  /** Whether no other member can have had the partitions that this member had before and has now. */
  readonly isContinued: boolean
  readonly partitions: readonly { readonly topic: string; readonly partition: number }[]
}

interface MemberHow {
  readonly assigned: (assignment: Assignment) => void
  /** Called when the group is about to be rebalanced: offsets that are committed now are committed in time. */
  readonly rebalancing: () => void
  /** Called when this member cannot belong to its group any more. */
  readonly failed: (error: unknown) => void
}

/** A member of a consumer group, by the classic protocol. The client joins again by itself when the group is rebalanced. */
export class GroupMember {
  readonly consumer: Consumer
  readonly #settings: GroupSettings
  readonly #how: MemberHow
  readonly #ended = new AbortController()
  #memberId: string | undefined
  #generation = -1
  #joining: Promise<void> | undefined
  #leaving: Promise<void> | undefined

  /** @param turn the number of the attempt: each one begins with another broker. */
  constructor(client: ClientSettings, settings: GroupSettings, turn: number, how: MemberHow) {
    this.#settings = settings
    this.#how = how
    const { groupId, sessionTimeoutMs } = settings
    this.consumer = new Consumer({
      ...clientOptions(client, turn),
      groupId,
      autocommit: false,
      // With retries, a member that was expelled would join again by itself and commit what it no longer owns.
      retries: 0,
      sessionTimeout: sessionTimeoutMs,
      rebalanceTimeout: sessionTimeoutMs,
      heartbeatInterval: Math.min(MOST_BETWEEN_HEARTBEATS_MS, Math.floor(sessionTimeoutMs / 3)),
      heartbeatStallTimeout: sessionTimeoutMs,
      metadataMaxAge: METADATA_AGE_MS,
      requestTimeout: sessionTimeoutMs + ANSWER_MS,
    })
    watchConnections(this.consumer.connections)
    for (const topic of settings.topics) this.consumer.topics.track(topic)
    this.consumer.on('consumer:group:join', (joined) => this.#joined(joined))
    this.consumer.on('consumer:group:rebalance', () => this.#how.rebalancing())
    // The client gives up when joining again fails.
    this.consumer.on('error', (error: unknown) => this.#joinAgain(error))
    this.consumer.on('consumer:heartbeat:error', ({ error }) => {
      if (errorCodesIn(error).length === 0) this.#fail(error)
    })
    this.consumer.on('consumer:heartbeat:stalled', ({ lastError }) => {
      this.#fail(lastError ?? new Error(`no heartbeat was answered for ${sessionTimeoutMs} ms`))
    })
  }

  /** Joins the group. Resolves when the member has its partitions, or cannot get any. */
  join(): Promise<void> {
    this.#joining ??= this.#join().finally(() => (this.#joining = undefined))
    return this.#joining
  }

  /** Leaves the group, so that its other members get the partitions at once, and disconnects. Never rejects. */
  leave(): Promise<void> {
    this.#leaving ??= this.#leave()
    return this.#leaving
  }

  disconnect(): void {
    this.#ended.abort()
    breakConnections(this.consumer.connections)
    // The connections are broken already, so closing may fail.
    this.consumer.close(true).catch(() => undefined)
  }

  async #leave(): Promise<void> {
    this.#ended.abort()
    const late = new AbortController()
    await within(this.#leaveGroup(late.signal), LEAVE_MS, () => undefined, { ref: false })
    late.abort()
    this.disconnect()
  }

  /**
   * Tries again after an error, because the first attempt may use a connection that has just broken. If all attempts fail, the group
   * waits until the session of the member has expired.
   */
  async #leaveGroup(signal: AbortSignal): Promise<void> {
    for (let attempt = 0; attempt < LEAVE_ATTEMPTS && !signal.aborted; attempt += 1) {
      try {
        await new Promise<void>((resolve, reject) => {
          this.consumer.leaveGroup(true, (error) => (error === null ? resolve() : reject(error)))
        })
        return
      } catch {
        await pause(JOIN_PAUSE_MS, signal)
      }
    }
  }

  async #join(): Promise<void> {
    const { signal } = this.#ended
    const began = performance.now()
    while (!signal.aborted) {
      try {
        await this.consumer.joinGroup({})
        return
      } catch (error) {
        const isTooLate = performance.now() - began > 2 * this.#settings.sessionTimeoutMs
        if (isTooLate || !mayJoinAgain(error)) {
          this.#fail(error)
          return
        }
        await pause(JOIN_PAUSE_MS, signal)
      }
    }
  }

  #joinAgain(error: unknown): void {
    if (mayJoinAgain(error)) void this.join()
    else this.#fail(error)
  }

  #joined({ memberId, generationId = -1, assignments = [] }: ConsumerGroupJoinPayload): void {
    if (this.#ended.signal.aborted) return
    const isContinued = memberId === this.#memberId && generationId === this.#generation + 1
    this.#memberId = memberId
    this.#generation = generationId
    const partitions = assignments.flatMap(({ topic, partitions: own }) =>
      own.map((partition) => ({ topic, partition })),
    )
    this.#how.assigned({ isContinued, partitions })
  }

  #fail(error: unknown): void {
    if (!this.#ended.signal.aborted) this.#how.failed(error)
  }
}

function mayJoinAgain(error: unknown): boolean {
  return errorCodesIn(error).some((code) => JOIN_AGAIN.has(code))
}
