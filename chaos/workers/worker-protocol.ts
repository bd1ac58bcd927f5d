import type { Engine } from '../database/engine.ts'

export type WorkerKind =
  | 'producer'
  | 'relay'
  | 'consumer'
  | 'queue-worker'
  | 'local-worker'
  | 'http-service'
  | 'http-client'
  | 'collector'

/** The start options of a worker, as JSON in its first argument. */
export interface WorkerConfig {
  readonly kind: WorkerKind
  /** The slot of the worker, such as `relay-1`: a replacement process has the same slot. */
  readonly slot: string
  /** Which process of the slot this is, from 1 on. */
  readonly incarnation: number
  readonly engine: Engine
  readonly databaseUrl: string
  readonly brokerUrl: string
  readonly seed: number
  /** Of a relay or a local consumer on a shard, and of a worker of the queue on a message: there, it is the visibility timeout. */
  readonly leaseMs: number
  /** The maximum number of messages of one shard that a relay has in flight. */
  readonly batchSize: number
  /** How long a call of the publisher may take, in ms. */
  readonly publishTimeoutMs: number
  /** The bug that is planted in the worker itself, not in the packages. */
  readonly workerPlant: string | undefined
  /** How long each handler of a local consumer takes at least, in ms. */
  readonly localWorkMs: number
  /** The folder with the sockets of the HTTP services and the log of their client. */
  readonly httpFolder: string
  /** A file to which a relay appends the id of the message that kills it. */
  readonly killLog: string
}

/**
 * Illnesses of a message, or of an HTTP request: at the consumer, the worker of the queue, the local consumer or the HTTP service,
 * `fail` each time; but for the last two, which the publisher of a relay suffers from. No HTTP request has `fail`.
 */
export type Illness = 'throw' | 'fail' | 'hang' | 'kill' | 'slow' | 'kills-relay' | 'hangs-relay'

/** How the workers behave for a while; the driver sets it, and each new process is told. */
export interface Mode {
  /** The illness of one in ten messages from now on. */
  readonly ill: Illness | undefined
  /** Producers lock aggregates in any order, which makes deadlocks. */
  readonly unordered: boolean
  /** Producers commit late. */
  readonly late: boolean
  /** How often producers roll back, 0 to 1. */
  readonly rollback: number
  /**
   * Consumers give this share of their deliveries back after the commit, and HTTP services lose this share of their answers, 0 to 1.
   */
  readonly redeliver: number
  /** Ill messages do no harm any more. */
  readonly healed: boolean
}

export const CALM: Mode = {
  ill: undefined,
  unordered: false,
  late: false,
  rollback: 0.05,
  redeliver: 0.01,
  healed: false,
}

export type ToWorker =
  | { readonly what: 'mode'; readonly mode: Mode }
  /** The wall clock of the process is off by this much from now on. */
  | { readonly what: 'clock'; readonly offsetMs: number }

export interface WorkerReport {
  readonly what: 'report'
  readonly counts: Readonly<Record<string, number>>
  /** Errors by message, since the last report. */
  readonly errors: Readonly<Record<string, number>>
  readonly rssBytes: number
  readonly heapBytes: number
}

export type FromWorker = { readonly what: 'ready' } | WorkerReport

/** The body of each message. */
export interface Change {
  /** The key of a chain of versions: an aggregate's name and the epoch of the server. Without it, no chain. */
  readonly versionKey?: string
  readonly from?: number
  readonly to?: number
  readonly ill?: Illness
  /** How long the handler of the queue or of a local consumer takes at least, in ms. */
  readonly workMs?: number
  readonly padding: string
}

export const EXCHANGE = 'chaos'
/** The relays publish into this queue; the recorder takes the messages out. */
export const RECORD_QUEUE = 'chaos.record'
/** The recorder passes each message on to the consumers by this queue. */
export const WORK_QUEUE = 'chaos.work'
/** The dead letters of the consumer that has some; the recorder heals them, and passes them on again. */
export const DEAD_QUEUE = 'chaos.dead'
/** The stored queue, in the database of the producers. */
export const QUEUE = 'chaos'
/** The local consumers: one handles message by message, the other in batches. Each gets every message of the type. */
export const LOCAL_CONSUMERS = ['bookings', 'totals'] as const
export const LOCAL_TYPE = 'chaos.entry'
/** Names the relay that published a copy, and when the publisher was called, in ms of a clock that never jumps. */
export const RELAY_HEADER = 'chaos-relay'
export const CALLED_AT_HEADER = 'chaos-called-at'
