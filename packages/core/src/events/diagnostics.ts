import { channel, type Channel } from 'node:diagnostics_channel'

/** A message in an event of a channel: never its payload, its headers or its key. */
export interface DiagnosedMessage {
  readonly id: string
  readonly topic?: string | undefined
  readonly type?: string | undefined
}

/** The events of the channels of `node:diagnostics_channel`, whose names begin with `txbox:`. */
export interface Diagnostics {
  /** Messages were stored by a transaction, which may still roll back. */
  publish: {
    readonly by: 'publish' | 'send'
    readonly messages: readonly (DiagnosedMessage & { readonly duplicate: boolean })[]
  }
  published: {
    readonly shard: number
    readonly messages: readonly (DiagnosedMessage & { readonly createdAt: Date })[]
    readonly durationMs: number
  }
  parked: DiagnosedMessage & { readonly attempt: number; readonly dueAt: Date; readonly reason: string }
  'dead-lettered': DiagnosedMessage & {
    readonly consumer?: string
    readonly source?: string
    readonly attempts?: number
    readonly deliveries?: number
    readonly reason: string
  }
  handled: DiagnosedMessage & {
    readonly consumer: string
    readonly source: string
    readonly deliveries: number
    readonly outcome: string
    readonly durationMs: number
  }
  retried: DiagnosedMessage & {
    readonly consumer: string
    readonly source: string
    readonly deliveries: number
    readonly delayMs: number
    readonly local: boolean
    readonly reason: string
  }
  unavailable: {
    readonly consumer?: string
    readonly source?: string
    readonly retryInMs: number
    readonly reason: string
  }
}

const CHANNELS: { readonly [N in keyof Diagnostics]: Channel } = {
  publish: channel('txbox:publish'),
  published: channel('txbox:published'),
  parked: channel('txbox:parked'),
  'dead-lettered': channel('txbox:dead-lettered'),
  handled: channel('txbox:handled'),
  retried: channel('txbox:retried'),
  unavailable: channel('txbox:unavailable'),
}

/** Whether a channel has subscribers. */
export function isDiagnosed(name: keyof Diagnostics): boolean {
  return CHANNELS[name].hasSubscribers
}

/** Publishes an event on a channel. `event` is not called if the channel has no subscribers. */
export function diagnose<N extends keyof Diagnostics>(name: N, event: () => Diagnostics[N]): void {
  const to = CHANNELS[name]
  // Node itself reports an error that a subscriber throws as an uncaught exception, and goes on here.
  if (to.hasSubscribers) to.publish(event())
}

/** The parts of a message that a channel may show. */
export function diagnosed(message: DiagnosedMessage): DiagnosedMessage {
  const { id, topic, type } = message
  return { id, ...(topic === undefined ? {} : { topic }), ...(type === undefined ? {} : { type }) }
}
