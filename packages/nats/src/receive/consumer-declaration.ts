import { nanos } from '@nats-io/transport-node'
import { AckPolicy, DeliverPolicy, type ConsumerConfig, type JetStreamManager } from '@nats-io/jetstream'
import { apiCodeOf } from '../connection/client-errors.ts'
import type { SourceSettings } from './nats-source-options.ts'

const CONSUMER_NOT_FOUND = 10_014
const STREAM_NOT_FOUND = 10_059
const MS = 1_000_000

/** The limits of a consumer for one request. */
export interface PullLimits {
  readonly batch: number
  readonly expiresMs: number
}

/** A consumer that can be used. */
export interface FoundConsumer {
  readonly limits: PullLimits
  /** The text of a warning about the consumer's settings, if they limit the source. */
  readonly warning: string | undefined
}

/**
 * Finds the consumer, or creates it as declared.
 *
 * @throws when there is no such consumer, or one that cannot be used. The text names what to change.
 */
export async function findConsumer(
  manager: JetStreamManager,
  settings: SourceSettings,
): Promise<FoundConsumer> {
  const config = (await existing(manager, settings)) ?? (await created(manager, settings))
  refuseUnusable(config, settings)
  const { max_batch: batch = 0, max_expires: expires = 0, max_deliver: deliveries = -1 } = config
  return {
    limits: {
      batch: batch > 0 ? batch : Infinity,
      expiresMs: expires > 0 ? expires / MS : Infinity,
    },
    warning:
      deliveries > 0
        ? `The consumer '${settings.consumer}' of NATS has max_deliver ${deliveries}: JetStream does not deliver a message again after so ` +
          'many deliveries, and says nothing. Set max_deliver to -1: the option retry decides when a message becomes a dead letter.'
        : undefined,
  }
}

async function existing(
  manager: JetStreamManager,
  { stream, consumer }: SourceSettings,
): Promise<ConsumerConfig | undefined> {
  try {
    return (await manager.consumers.info(stream, consumer)).config
  } catch (error) {
    const code = apiCodeOf(error)
    if (code === CONSUMER_NOT_FOUND) return undefined
    if (code !== STREAM_NOT_FOUND) throw error
    throw new Error(`there is no stream '${stream}'. Create the stream, or correct the option 'stream'`, {
      cause: error,
    })
  }
}

async function created(manager: JetStreamManager, settings: SourceSettings): Promise<ConsumerConfig> {
  const { stream, consumer, declared, ackWaitMs } = settings
  if (declared === undefined) {
    throw new Error(
      `the stream '${stream}' has no consumer '${consumer}'. Create the consumer, correct the option 'consumer', or set the option 'declare'`,
    )
  }
  const { filterSubjects = [], maxAckPending = 1000, from = 'earliest' } = declared
  const [only, ...others] = filterSubjects
  const { config } = await manager.consumers.add(stream, {
    durable_name: consumer,
    ack_policy: AckPolicy.Explicit,
    ack_wait: nanos(ackWaitMs),
    max_ack_pending: maxAckPending,
    max_deliver: -1,
    deliver_policy: from === 'earliest' ? DeliverPolicy.All : DeliverPolicy.New,
    ...(others.length > 0 ? { filter_subjects: [...filterSubjects] } : {}),
    ...(only !== undefined && others.length === 0 ? { filter_subject: only } : {}),
  })
  return config
}

function refuseUnusable(config: ConsumerConfig, { consumer, declared, ackWaitMs }: SourceSettings): void {
  const refuse = (what: string): never => {
    throw new Error(`the consumer '${consumer}' ${what}`)
  }
  if (config.deliver_subject !== undefined) refuse('is a push consumer. Create a pull consumer')
  if (config.ack_policy !== AckPolicy.Explicit) {
    refuse(`has ack_policy '${config.ack_policy}'. Create a consumer with ack_policy 'explicit'`)
  }
  if (config.headers_only === true) refuse('has headers_only, so that payloads would be missing')
  const { ack_wait: ackWait = 0 } = config
  // A backoff replaces the ack_wait.
  const shortest = Math.min(ackWait, ...(config.backoff ?? [])) / MS
  if (shortest < ackWaitMs) {
    refuse(
      `waits ${shortest} ms for an acknowledgement (ack_wait or backoff), less than the ${ackWaitMs} ms of the source. Set the option ` +
        "'declare' with such an 'ackWaitMs', or change the consumer",
    )
  }
  const asked: readonly (readonly [string, unknown, unknown])[] = [
    ['filterSubjects', declared?.filterSubjects, filtersOf(config)],
    ['ackWaitMs', declared?.ackWaitMs, ackWait / MS],
    ['maxAckPending', declared?.maxAckPending, config.max_ack_pending],
    ['from', declared?.from, config.deliver_policy === DeliverPolicy.New ? 'latest' : 'earliest'],
  ]
  for (const [name, wanted, has] of asked) {
    if (wanted === undefined || sorted(wanted) === sorted(has)) continue
    refuse(
      `exists with other settings than the option 'declare': '${name}' is ${sorted(has)}. Change one of them`,
    )
  }
}

function filtersOf({
  filter_subject: one,
  filter_subjects: several = [],
}: ConsumerConfig): readonly string[] {
  return one === undefined || one === '' ? several : [one]
}

function sorted(value: unknown): string {
  return JSON.stringify(Array.isArray(value) ? (value as string[]).toSorted() : value)
}
