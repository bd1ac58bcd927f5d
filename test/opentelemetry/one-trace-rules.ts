import { randomUUID } from 'node:crypto'
import { ROOT_CONTEXT, context, createTraceState, trace, type Span } from '@opentelemetry/api'
import { createConsumer, type Source } from '@txbox/consumer'
import type { AnyMessage, NewMessage, Publisher, TransactionHandle } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { createOutbox } from '@txbox/outbox'
import { expect, onTestFinished, test } from 'vitest'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'
import { RelayUnderTest } from '../support/subjects/relay-under-test.ts'
import { idOf, linksOf, traceOf, useSpans, type SpansUnderTest } from './spans-under-test.ts'

/** A queue, topic or stream of one test. */
export interface Place {
  readonly topic: string
  readonly source: () => Source
}

export interface TracedBroker {
  /** As spans call it. */
  readonly system: string
  readonly place: () => Promise<Place>
  readonly publisher: () => Publisher
}

const STATE = 'vendor=kept'

/** Runs work in the span of a request, whose trace another service has begun, with a `tracestate`. */
export function withinRequest<R>(spans: SpansUnderTest, work: (span: Span) => Promise<R>): Promise<R> {
  const remote = {
    traceId: randomUUID().replaceAll('-', ''),
    spanId: 'b7ad6b7169203331',
    traceFlags: 1,
    isRemote: true,
    traceState: createTraceState(STATE),
  }
  return context.with(trace.setSpanContext(ROOT_CONTEXT, remote), () => spans.within('request', work))
}

/** A producer, a relay, a broker, and a consumer with an inbox: its tests are those of the file that calls this. */
export function oneTraceThrough(broker: TracedBroker): void {
  const target = useTarget()
  const root = useRoot(target, mainKind(target), { max: 20 })
  const spans = useSpans()
  const { telemetry } = spans

  async function publish(message: NewMessage): Promise<void> {
    const transaction = await root.begin()
    await createOutbox({ database: root.database, telemetry }).publish(transaction.tx, message)
    await transaction.commit()
  }

  /** The SQL of the handler is in a span, as an instrumentation of the driver makes it. */
  async function consume(
    source: Source,
    options: object = {},
  ): Promise<{ name: string; handled: AnyMessage[] }> {
    const name = `consumer-${randomUUID()}`
    const handled: AnyMessage[] = []
    const isBatch = 'batch' in options
    const effect = (tx: TransactionHandle, { id }: AnyMessage): Promise<void> =>
      trace.getTracer('a driver').startActiveSpan('INSERT', async (span) => {
        await target.effect(tx, `${name} ${id}`)
        span.end()
      })
    const consumer = createConsumer({
      source,
      inbox: createInbox({ database: root.database, consumer: name, telemetry }),
      handler: async (tx: TransactionHandle, given: AnyMessage | readonly AnyMessage[]) => {
        for (const message of (isBatch ? given : [given]) as readonly AnyMessage[]) {
          handled.push(message)
          await effect(tx, message)
        }
      },
      telemetry,
      logger: false,
      // A source that keeps rejected messages itself refuses this option.
      ...(source.traits.keepsRejected ? {} : { deadLetters: broker.publisher() }),
      ...options,
    } as never)
    onTestFinished(() => consumer.stop())
    await consumer.start()
    return { name, handled }
  }

  test('the producer, the relay, the broker, the consumer and its SQL are one trace', async () => {
    const { topic, source } = await broker.place()
    const { name, handled } = await consume(source())
    await withinRequest(spans, () => publish({ topic, id: `${topic} 1`, key: 'a', payload: {} }))
    await RelayUnderTest.started(root, broker.publisher(), { telemetry })
    const [process] = await spans.has(`process ${name}`)
    const [send] = await spans.has(`send ${topic}`)
    const [request, create, insert] = ['request', `create ${topic}`, 'INSERT'].map(
      (of) => spans.named(of)[0]!,
    )

    expect(new Set([request!, create!, process!, insert!].map(traceOf)).size).toBe(1)
    expect(create!.parentSpanContext?.spanId).toBe(idOf(request!))
    expect(process!.parentSpanContext).toMatchObject({ spanId: idOf(create!), isRemote: true })
    expect(insert!.parentSpanContext?.spanId).toBe(idOf(process!))
    expect(send!.parentSpanContext).toBeUndefined()
    expect(send!.attributes['kafka.message.key']).toBe(broker.system === 'kafka' ? 'a' : undefined)
    expect(linksOf(send!)).toEqual([idOf(create!)])
    for (const span of [send!, process!]) {
      expect(span.attributes['messaging.system.name']).toBe(broker.system)
      expect(span.attributes['messaging.message.id']).toBe(`${topic} 1`)
    }
    // Both headers have arrived as they were stored.
    expect(handled[0]!.headers).toMatchObject({
      traceparent: `00-${traceOf(create!)}-${idOf(create!)}-01`,
      tracestate: STATE,
    })
    expect(process!.spanContext().traceState?.serialize()).toBe(STATE)
  })

  test('a batch is a span that is linked to the contexts of its messages', async () => {
    const { topic, source } = await broker.place()
    for (let n = 0; n < 3; n++) {
      await withinRequest(spans, () => publish({ topic, payload: n }))
    }
    await RelayUnderTest.started(root, broker.publisher(), { telemetry })
    const { name, handled } = await consume(source(), {
      batch: { maxSize: 3, lingerMs: 5000 },
      concurrency: 1,
    })
    const [process] = await spans.has(`process ${name}`)
    const created = spans.named(`create ${topic}`)
    expect(new Set(created.map(traceOf)).size).toBe(3)
    expect(handled).toHaveLength(3)
    expect(linksOf(process!).toSorted()).toEqual(created.map(idOf).toSorted())
    expect(process!.parentSpanContext).toBeUndefined()
    expect(process!.attributes['messaging.batch.message_count']).toBe(3)
    expect(process!.attributes['messaging.system.name']).toBe(broker.system)
    for (const insert of spans.named('INSERT')) expect(insert.parentSpanContext?.spanId).toBe(idOf(process!))
    const sent = spans.named(`send ${topic}`)
    expect(sent.flatMap(linksOf).toSorted()).toEqual(created.map(idOf).toSorted())
  })
}
