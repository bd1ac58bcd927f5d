import type { Copy } from '../driver/recorder.ts'
import type { Committed, Effect, LeaseChange, Unfenced } from './history.ts'
import type { ChargeRecord } from './charge-history.ts'
import type { HttpRecord } from './http-history.ts'
import type { LocalRecord } from './local-history.ts'
import type { QueueRecord, StuckKey } from './queue-history.ts'
import type { TimelineEvent } from '../driver/timeline.ts'

/** Everything that the checks at the end of a run look at. */
export interface Evidence extends QueueRecord, LocalRecord, HttpRecord, ChargeRecord {
  readonly leaseMs: number
  readonly batchSize: number
  /** The ledger of the last primary. */
  readonly committed: ReadonlyMap<string, Committed>
  /** Rows that a former primary had committed and that the failover lost. */
  readonly lost: ReadonlyMap<string, Committed>
  /** The rows of the queue that the failover lost. */
  readonly queueLost: ReadonlyMap<string, Committed>
  /** The messages of the local consumers that the failover lost. */
  readonly localLost: ReadonlyMap<string, Committed>
  /** Stuck keys of the queue, at which no receiver would look, during the run or at the end. */
  readonly stuckKeys: readonly StuckKey[]
  /** Every committed send of a request, by the outbox or to the queue. The ids are the same if the send stored the message. */
  readonly sends: readonly { readonly request: string; readonly id: string; readonly newId: string }[]
  readonly copies: readonly Copy[]
  readonly first: ReadonlyMap<string, Copy>
  readonly effects: readonly Effect[]
  /** Message ids that the inbox has a claim for. */
  readonly claims: readonly string[]
  /** The messages that the version buffer applied, in order. */
  readonly applied: readonly { readonly versionKey: string; readonly from: number; readonly id: string }[]
  /** Rows of versioned tables that are not at the version that was applied last. */
  readonly balances: ReadonlyMap<string, { readonly version: number; readonly total: number }>
  /** One sentence for each kind of row that should no longer be in the tables of txbox. */
  readonly left: readonly { readonly text: string; readonly id?: string | undefined }[]
  readonly leaseChanges: readonly LeaseChange[]
  readonly unfenced: readonly Unfenced[]
  /** The ids of killing messages, one for each relay that they killed. */
  readonly kills: readonly string[]
  readonly deadLetters: readonly { readonly id: string; readonly error: string | undefined }[]
  /** The messages that a consumer of the broker made dead letters. */
  readonly consumerDeadLetters: readonly { readonly id: string; readonly error: string | undefined }[]
  readonly relayDeaths: readonly number[]
  readonly timeline: readonly TimelineEvent[]
  /** Violations that were found during the run. */
  readonly standstills: readonly string[]
  /** HTTP requests that waited too long for their answers, as far as that was found during the run. */
  readonly httpStandstills: readonly string[]
  readonly resources: readonly string[]
  readonly unclean: readonly string[]
}
