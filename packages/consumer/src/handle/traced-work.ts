import type { Attributes } from '@txbox/core'
import {
  ATTRIBUTES,
  markInSpan,
  processingOne,
  processingSeveral,
  type GuardedTelemetry,
  type Processing,
} from '@txbox/core/internal'
import { countEvents, recordHandled } from './consumer-metrics.ts'
import type { ConsumerSettings } from '../options/consumer-settings.ts'
import type { HeldDelivery } from '../receive/held-delivery.ts'
import type { HandlerCall } from './handler-call.ts'
import type { Work, WorkResult } from './work.ts'

/** Does the work in a span, if there is a telemetry. */
export class TracedWork implements Work {
  readonly isAllOrNothing: boolean
  readonly #work: Work
  readonly #settings: ConsumerSettings
  readonly #processing: Processing

  constructor(work: Work, settings: ConsumerSettings) {
    const { name, source, spanParent } = settings
    this.isAllOrNothing = work.isAllOrNothing
    this.#work = work
    this.#settings = settings
    countEvents(settings.log.events, name, settings.telemetry)
    this.#processing = {
      consumer: name,
      system: source.system,
      destination: source.destination,
      parent: spanParent,
      detached: true,
    }
  }

  alone(held: HeldDelivery, call: HandlerCall): Promise<WorkResult> {
    const telemetry = this.#settings.telemetry()
    if (telemetry === undefined) return this.#work.alone(held, call)
    markInSpan(held.message)
    const beganAt = performance.now()
    return telemetry.span(processingOne(held.message, this.#processing), async (handle) => {
      let error: unknown
      try {
        const result = await this.#work.alone(held, call)
        if (this.#hasInbox) handle.set({ [ATTRIBUTES.inboxOutcome]: result.outcome })
        return result
      } catch (thrown) {
        error = thrown ?? 'thrown'
        throw thrown
      } finally {
        recordHandled(telemetry, this.#processing.consumer, this.#attributes, { beganAt, messages: 1, error })
      }
    })
  }

  together(batch: readonly HeldDelivery[], call: HandlerCall): readonly Promise<WorkResult>[] {
    const telemetry = this.#settings.telemetry()
    if (telemetry === undefined) return this.#work.together(batch, call)
    return this.#inOneSpan(telemetry, batch, call)
  }

  #inOneSpan(
    telemetry: GuardedTelemetry,
    batch: readonly HeldDelivery[],
    call: HandlerCall,
  ): readonly Promise<WorkResult>[] {
    const messages = batch.map(({ message }) => message)
    for (const message of messages) markInSpan(message)
    const beganAt = performance.now()
    let results: readonly Promise<WorkResult>[] | undefined
    void telemetry.span(processingSeveral(messages, this.#processing), async (handle) => {
      try {
        results = this.#work.together(batch, call)
      } catch (error) {
        results = batch.map(() => Promise.reject(error as Error))
      }
      let error: unknown
      for (const each of await Promise.allSettled(results)) {
        if (each.status === 'rejected') error ??= each.reason ?? 'thrown'
      }
      if (error !== undefined) handle.failed(error)
      recordHandled(telemetry, this.#processing.consumer, this.#attributes, {
        beganAt,
        messages: batch.length,
        error,
      })
    })
    // The work of a span begins before `span` returns.
    return results!
  }

  /** The attributes of metrics. */
  get #attributes(): Attributes {
    const { consumer, system, destination } = this.#processing
    return {
      [ATTRIBUTES.operationName]: 'process',
      [ATTRIBUTES.consumerGroup]: consumer,
      ...(system === undefined ? {} : { [ATTRIBUTES.system]: system }),
      ...(destination === undefined ? {} : { [ATTRIBUTES.destination]: destination }),
    }
  }

  get #hasInbox(): boolean {
    return this.#settings.work.kind === 'inbox'
  }
}
