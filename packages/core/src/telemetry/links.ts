import { traceContextOf, type TraceContext } from './trace-context.ts'

/** SDKs keep 128 links of a span by default. */
const MOST_LINKS = 128

/** The contexts of messages, without repetitions: those of the first messages, at most 128. */
export function linksTo(
  messages: readonly { readonly headers?: Readonly<Record<string, unknown>> | undefined }[],
): readonly TraceContext[] {
  const links = new Map<string, TraceContext>()
  for (const { headers } of messages) {
    if (links.size === MOST_LINKS) break
    const context = traceContextOf(headers)
    if (context !== undefined && !links.has(context.traceparent)) links.set(context.traceparent, context)
  }
  return [...links.values()]
}
