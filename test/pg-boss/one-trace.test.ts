import { randomUUID } from 'node:crypto'
import { trace } from '@opentelemetry/api'
import type { TransactionHandle } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { createOutbox } from '@txbox/outbox'
import { fromPgBoss, pgBossPublisher, type PgBossPublisherOptions } from '@txbox/pg-boss'
import { expect, onTestFinished, test } from 'vitest'
import { withinRequest } from '../opentelemetry/one-trace-rules.ts'
import { idOf, linksOf, traceOf, useSpans } from '../opentelemetry/spans-under-test.ts'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'
import { RelayUnderTest } from '../support/subjects/relay-under-test.ts'
import { usePgBoss } from './pg-boss-under-test.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target), { max: 20 })
const subject = usePgBoss()
const spans = useSpans()
const { telemetry } = spans

/** Publishes a message in a request, and handles its job in an inbox. Returns the spans that are on the way. */
async function handled(data: PgBossPublisherOptions['data'], propagateContext: boolean) {
  const boss = await subject.open(undefined, { openTelemetry: { propagateContext } })
  const topic = await subject.queue()
  const consumer = `worker-${randomUUID()}`
  const inbox = createInbox({ database: root.database, consumer, telemetry })
  const effect = (tx: TransactionHandle): Promise<void> =>
    trace.getTracer('a driver').startActiveSpan('INSERT', async (span) => {
      await target.effect(tx, consumer)
      span.end()
    })
  await boss.work<object>(topic, { pollingIntervalSeconds: 0.5 }, async (jobs) => {
    for (const job of jobs) await inbox.run(fromPgBoss(job), effect)
  })
  onTestFinished(() => boss.offWork(topic))
  await withinRequest(spans, async () => {
    const transaction = await root.begin()
    const message = { topic, id: `${topic} 1`, payload: { total: 5 } }
    await createOutbox({ database: root.database, telemetry }).publish(transaction.tx, message)
    await transaction.commit()
  })
  await RelayUnderTest.started(root, pgBossPublisher({ boss, data }), { telemetry })
  const names = [`process ${topic}`, `process ${consumer}`, `send ${topic}`]
  const [worker, process, send] = await Promise.all(names.map(async (name) => (await spans.has(name))[0]!))
  const [create] = spans.named(`create ${topic}`)
  const [insert] = spans.named('INSERT')
  return { worker: worker!, process: process!, send: send!, create: create!, insert: insert! }
}

test.each([false, true])(
  'the producer, the inbox of a worker and its SQL are one trace, also if pg-boss propagates a context: %s',
  async (propagateContext) => {
    const { process, send, create, insert } = await handled('envelope', propagateContext)
    expect(create.parentSpanContext?.spanId).toBe(idOf(spans.named('request')[0]!))
    expect(process.parentSpanContext).toMatchObject({ spanId: idOf(create), isRemote: true })
    expect(insert.parentSpanContext?.spanId).toBe(idOf(process))
    expect(new Set([create, process, insert].map(traceOf)).size).toBe(1)
    expect(linksOf(send)).toEqual([idOf(create)])
    expect(send.attributes['messaging.system.name']).toBe('pg-boss')
    expect(process.spanContext().traceState?.serialize()).toBe('vendor=kept')
  },
)

test("with data: 'payload', the worker belongs to the trace of the relay's call, which is linked to the producer's", async () => {
  const { worker, process, send, create, insert } = await handled('payload', true)
  expect(linksOf(send)).toEqual([idOf(create)])
  expect(new Set([send, worker, process, insert].map(traceOf)).size).toBe(1)
  expect(process.parentSpanContext?.spanId).toBe(idOf(worker))
  expect(traceOf(process)).not.toBe(traceOf(create))
})
