import {
  ATTRIBUTES,
  isInSpan,
  processingOne,
  processingSeveral,
  type FindTelemetry,
  type Processing,
  type SpanParent,
} from '@txbox/core/internal'
import type { AnyMessage } from '@txbox/core'

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
    if (telemetry === undefined || isInSpan(message)) return work()
    return telemetry.span(processingOne(message, this.#processing), async (tell) => {
      const outcome = await work()
      tell.set({ [ATTRIBUTES.inboxOutcome]: outcome.status })
      return outcome
    })
  }

  several<R>(messages: readonly AnyMessage[], work: () => Promise<R>): Promise<R> {
    const telemetry = this.#telemetry()
    if (telemetry === undefined || messages.some(isInSpan)) return work()
    return telemetry.span(processingSeveral(messages, this.#processing), work)
  }
}
