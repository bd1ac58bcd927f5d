import {
  ATTRIBUTES,
  isInSpan,
  processingOne,
  processingSeveral,
  type FindTelemetry,
  type Processing,
  type SpanParent,
} from '@txbox/core/internal'
import type { AnyMessage, Telemetry } from '@txbox/core'

/** The spans in which an inbox handles messages, unless the consumer that uses the inbox has begun one. */
export class InboxSpans {
  readonly #telemetry: FindTelemetry
  readonly #processing: Processing

  constructor(consumer: string, parent: SpanParent, telemetry: FindTelemetry) {
    this.#telemetry = telemetry
    this.#processing = { consumer, parent, detached: false }
  }

  one<O extends { readonly status: string }>(message: AnyMessage, work: () => Promise<O>): Promise<O> {
    const telemetry = this.#telemetry()
    if (telemetry === undefined) return work()
    const counted = async (): Promise<O> => {
      const outcome = await work()
      this.#count(telemetry, outcome.status, 1)
      return outcome
    }
    if (isInSpan(message)) return counted()
    return telemetry.span(processingOne(message, this.#processing), async (handle) => {
      const outcome = await counted()
      handle.set({ [ATTRIBUTES.inboxOutcome]: outcome.status })
      return outcome
    })
  }

  several<R extends { readonly outcomes: readonly { readonly status: string }[] }>(
    messages: readonly AnyMessage[],
    work: () => Promise<R>,
  ): Promise<R> {
    const telemetry = this.#telemetry()
    if (telemetry === undefined) return work()
    const counted = async (): Promise<R> => {
      const result = await work()
      const counts = new Map<string, number>()
      for (const { status } of result.outcomes) counts.set(status, (counts.get(status) ?? 0) + 1)
      for (const [status, count] of counts) this.#count(telemetry, status, count)
      return result
    }
    return messages.some(isInSpan)
      ? counted()
      : telemetry.span(processingSeveral(messages, this.#processing), counted)
  }

  /** What `process` has counted may still be rolled back by its caller. */
  #count(telemetry: Telemetry, outcome: string, count: number): void {
    telemetry.count('txbox.inbox.messages', count, {
      consumer: this.#processing.consumer,
      outcome,
    })
  }
}
