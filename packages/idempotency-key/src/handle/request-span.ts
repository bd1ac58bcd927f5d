import { ATTRIBUTES, traceContextOf, type FindTelemetry, type SpanParent } from '@txbox/core/internal'
import type { SpanDescription } from '@txbox/core'
import { headerLines, type TakenRequest } from '../request/http-request.ts'

interface Answered {
  readonly kind: string
  readonly response: { readonly status: number }
}

/** Answers a request in a span `process <name>`, in which the handler runs. */
export class RequestSpans {
  readonly #name: string
  readonly #parent: SpanParent
  readonly #telemetry: FindTelemetry

  constructor(name: string, parent: SpanParent, telemetry: FindTelemetry) {
    this.#name = name
    this.#parent = parent
    this.#telemetry = telemetry
  }

  around<A extends Answered>(request: TakenRequest, work: () => Promise<A>): Promise<A> {
    const telemetry = this.#telemetry()
    if (telemetry === undefined) return work()
    return telemetry.span(this.#describe(request), async (handle) => {
      const answer = await work()
      handle.set({
        [ATTRIBUTES.requestOutcome]: answer.kind,
        [ATTRIBUTES.httpStatus]: answer.response.status,
      })
      return answer
    })
  }

  #describe(request: TakenRequest): SpanDescription {
    const headers = {
      traceparent: headerLines(request, 'traceparent')?.[0],
      tracestate: headerLines(request, 'tracestate')?.join(','),
    }
    const context = traceContextOf(headers)
    const { method, route } = request
    return {
      name: `process ${this.#name}`,
      kind: 'internal',
      ...(context === undefined
        ? {}
        : this.#parent === 'message'
          ? { parent: context }
          : { links: [context] }),
      attributes: {
        [ATTRIBUTES.httpMethod]: method,
        ...(route === undefined ? {} : { [ATTRIBUTES.httpRoute]: route }),
      },
    }
  }
}
