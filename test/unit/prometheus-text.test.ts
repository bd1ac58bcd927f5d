import { expect, test } from 'vitest'
import { InvalidOptionError } from '@txbox/core'
import { GuardedTelemetry } from '@txbox/core/internal'
import { prometheusTelemetry } from '@txbox/prometheus'
import { parseMetrics } from '../support/subjects/metrics-text.ts'
import { checkedByPromtool } from '../support/subjects/promtool.ts'

/** The lines that begin with a name, without those of its help and its type. */
function lines(text: string, name: string): string[] {
  return text.split('\n').filter((line) => line.startsWith(name))
}

test('names are those of OpenTelemetry for Prometheus, with unit and _total, and the labels in the order of their names', async () => {
  const metrics = prometheusTelemetry({ resource: { 'service.name': 'shop', 'service.version': '1.2' } })
  metrics.observe('txbox.oldest_due.age', async () => [{ value: 1.5, attributes: {} }])
  metrics.observe('txbox.relay.publisher.up', async () => [{ value: 1, attributes: {} }])
  metrics.observe('txbox.queue.messages', async () => [
    { value: 3, attributes: { state: 'due', queue: 'work' } },
  ])
  metrics.count('messaging.client.sent.messages', 2, { 'messaging.system.name': 'rabbitmq' })
  metrics.count('messaging.client.sent.messages', 3, { 'messaging.system.name': 'rabbitmq' })
  metrics.count('txbox.gc.removed.rows', 0, { table: 'inbox' })
  const text = await metrics.text()
  expect(text.split('\n').filter((line) => line !== '' && !line.startsWith('# HELP'))).toEqual([
    '# TYPE target_info gauge',
    'target_info{service_name="shop",service_version="1.2"} 1',
    '# TYPE txbox_oldest_due_age_seconds gauge',
    'txbox_oldest_due_age_seconds 1.5',
    '# TYPE txbox_relay_publisher_up gauge',
    'txbox_relay_publisher_up 1',
    '# TYPE txbox_queue_messages gauge',
    'txbox_queue_messages{queue="work",state="due"} 3',
    '# TYPE messaging_client_sent_messages_total counter',
    'messaging_client_sent_messages_total{messaging_system_name="rabbitmq"} 5',
    '# TYPE txbox_gc_removed_rows_total counter',
    'txbox_gc_removed_rows_total{table="inbox"} 0',
    '# TYPE txbox_metrics_stale gauge',
    'txbox_metrics_stale 0',
  ])
  expect(metrics.contentType).toBe('text/plain; version=0.0.4; charset=utf-8')
  checkedByPromtool(text)
})

test('topics and queues are no labels, because they may be many', async () => {
  const metrics = prometheusTelemetry()
  for (const topic of ['a', 'b']) {
    metrics.count('messaging.client.sent.messages', 1, { 'messaging.destination.name': topic })
    metrics.record('messaging.process.duration', 1, { 'messaging.destination.name': topic })
  }
  const text = await metrics.text()
  expect(lines(text, 'messaging_client_sent')).toEqual(['messaging_client_sent_messages_total 2'])
  expect(lines(text, 'messaging_process_duration_seconds_count')).toEqual([
    'messaging_process_duration_seconds_count 2',
  ])
})

test('a histogram has growing buckets with inclusive bounds, a sum and a count', async () => {
  const metrics = prometheusTelemetry()
  for (const seconds of [0.004, 0.005, 0.3, 10, 11])
    metrics.record('txbox.relay.latency', seconds, { consumer: 'c' })
  const text = await metrics.text()
  const found = lines(text, 'txbox_relay_latency_seconds')
  expect(found).toHaveLength(17)
  expect(found[0]).toBe('txbox_relay_latency_seconds_bucket{consumer="c",le="0.005"} 2')
  expect(found).toContain('txbox_relay_latency_seconds_bucket{consumer="c",le="0.25"} 2')
  expect(found).toContain('txbox_relay_latency_seconds_bucket{consumer="c",le="0.5"} 3')
  expect(found.slice(-4)).toEqual([
    'txbox_relay_latency_seconds_bucket{consumer="c",le="10"} 4',
    'txbox_relay_latency_seconds_bucket{consumer="c",le="+Inf"} 5',
    `txbox_relay_latency_seconds_sum{consumer="c"} ${0.004 + 0.005 + 0.3 + 10 + 11}`,
    'txbox_relay_latency_seconds_count{consumer="c"} 5',
  ])
  checkedByPromtool(text)
})

test('label values with quotes, backslashes, line ends, control characters and lone surrogates stay one valid line', async () => {
  const metrics = prometheusTelemetry()
  const values = ['"', '\\', 'a\nb', '\u001b[2J', '\ud800', 'ö 😀', '\\n', '{}=,', '\u202e', '']
  for (const queue of values) metrics.count('txbox.inbox.messages', 1, { queue })
  const text = await metrics.text()
  expect(lines(text, 'txbox_inbox_messages_total')).toEqual(
    [
      String.raw`{queue="\""}`,
      String.raw`{queue="\\"}`,
      String.raw`{queue="a\\u000ab"}`,
      String.raw`{queue="\\u001b[2J"}`,
      '{queue="\ufffd"}',
      '{queue="ö 😀"}',
      String.raw`{queue="\\n"}`,
      '{queue="{}=,"}',
      String.raw`{queue="\\u202e"}`,
      '{queue=""}',
    ].map((labels) => `txbox_inbox_messages_total${labels} 1`),
  )
  expect(Buffer.from(text).toString()).toBe(text)
  checkedByPromtool(text)
})

test('names that become the same label are one label with both values', async () => {
  const metrics = prometheusTelemetry()
  metrics.count('txbox.inbox.messages', 1, { 'a.b': 1, a_b: true, '1x': 'y' })
  const text = await metrics.text()
  expect(lines(text, 'txbox_inbox')).toEqual(['txbox_inbox_messages_total{_1x="y",a_b="1;true"} 1'])
  checkedByPromtool(text)
})

test('names of attributes that are no names of labels, or those of the format itself, make no invalid line', async () => {
  const metrics = prometheusTelemetry({ resource: { '': 'x', ü: 'y' } })
  for (const name of ['', '__name__', 'le', '9', '-', 'é', '{a="', '__proto__', 'a\nb']) {
    metrics.count('txbox.inbox.messages', 1, { [name]: 'v' })
    metrics.record('txbox.relay.latency', 1, { [name]: 'v' })
  }
  const text = await metrics.text()
  checkedByPromtool(text)
  expect(lines(text, 'target_info')).toEqual(['target_info{_="x;y"} 1'])
  const labels = ['_', '_name_', 'le_', '_9', '_a_', '_proto_', 'a_b']
  const counts: Readonly<Record<string, number>> = { _: 3 }
  expect(lines(text, 'txbox_inbox_messages_total')).toEqual(
    labels.map((label) => `txbox_inbox_messages_total{${label}="v"} ${counts[label] ?? 1}`),
  )
  expect(text).toContain('txbox_relay_latency_seconds_bucket{le_="v",le="+Inf"} 1\n')
  // Each line is a sample, and none occurs twice.
  const samples = parseMetrics(text).map(({ name, labels: of }) => JSON.stringify([name, of]))
  expect(new Set(samples).size).toBe(samples.length)
})

test('a gauge may be infinite or no number; what is no value at all keeps the last values, and marks the metrics as stale', async () => {
  const metrics = prometheusTelemetry()
  let values: readonly unknown[] = [Infinity, -Infinity, NaN, -0, 1e21, 1e-7]
  metrics.observe('txbox.queue.age', async () =>
    values.map((value, n) => ({ value: value as number, attributes: { n } })),
  )
  const expected = ['+Inf', '-Inf', 'NaN', '0', '1e+21', '1e-7'].map(
    (value, n) => `txbox_queue_age_seconds{n="${n}"} ${value}`,
  )
  for (const wrong of [undefined, null, '5', 'x y', 5n, {}]) {
    values = [Infinity, -Infinity, NaN, -0, 1e21, 1e-7]
    expect(await metrics.text()).toContain('txbox_metrics_stale 0\n')
    values = [1, wrong]
    const text = await metrics.text()
    expect(lines(text, 'txbox_queue_age_seconds')).toEqual(expected)
    expect(text).toContain('txbox_metrics_stale 1\n')
    checkedByPromtool(text)
  }
})

test('a metric that txbox does not have is a mistake of the caller, and the others are written', async () => {
  const metrics = prometheusTelemetry()
  metrics.count('txbox.inbox.messages', 1, {})
  for (const name of ['txbox.of.a.later.release', 'constructor', '__proto__', '']) {
    expect(() => metrics.count(name as never, 1, {})).toThrow(/is no counter of this version/)
    expect(() => metrics.record(name as never, 1, {})).toThrow(/is no histogram of this version/)
    expect(() => metrics.observe(name as never, async () => [])).toThrow(/is no gauge of this version/)
  }
  expect(lines(await metrics.text(), 'txbox_')).toEqual([
    'txbox_inbox_messages_total 1',
    'txbox_metrics_stale 0',
  ])
})

test('ten thousand consumers are a valid text, which is there within two seconds', async () => {
  const metrics = prometheusTelemetry()
  const consumers = Array.from({ length: 10_000 }, (_, n) => `consumer "${n}"`)
  metrics.observe('txbox.outbox.backlog.age', async () =>
    consumers.map((consumer, value) => ({ value, attributes: { consumer } })),
  )
  const guarded = new GuardedTelemetry(metrics)
  for (const consumer of consumers) {
    const attributes = { consumer }
    guarded.observe('txbox.consumer.in_flight.messages', async () => [{ value: 1, attributes }])
    metrics.observe('txbox.queue.messages', async () => [{ value: 2, attributes }])
    metrics.count('txbox.consumer.deliveries', 1, attributes)
    metrics.record('messaging.process.duration', 0.02, attributes)
  }
  const begunAt = performance.now()
  const text = await metrics.text()
  expect(performance.now() - begunAt).toBeLessThan(2000)
  for (const name of [
    'txbox_outbox_backlog_age_seconds',
    'txbox_consumer_in_flight_messages',
    'txbox_queue_messages',
  ])
    expect(lines(text, `${name}{`)).toHaveLength(10_000)
  expect(lines(text, 'txbox_consumer_deliveries_total{')).toHaveLength(2001)
  expect(text).toContain('messaging_process_duration_seconds_count{otel_metric_overflow="true"} 8000\n')
  expect(text).toContain('txbox_metrics_stale 0\n')
  checkedByPromtool(text)
})

test('a gauge that fails or is late keeps its last values and marks the metrics as stale; no second reading begins', async () => {
  const metrics = prometheusTelemetry({ timeoutMs: 20 })
  let read = async (): Promise<number> => 1
  let readings = 0
  metrics.observe('txbox.queue.age', async () => {
    readings += 1
    return [{ value: await read(), attributes: {} }]
  })
  metrics.observe('txbox.relay.shards', async () => [{ value: 16, attributes: {} }])
  const isStale = async (value: number, stale: number): Promise<void> => {
    const text = await metrics.text()
    expect(lines(text, 'txbox_queue_age_seconds')).toEqual([`txbox_queue_age_seconds ${value}`])
    expect(lines(text, 'txbox_metrics_stale')).toEqual([`txbox_metrics_stale ${stale}`])
    expect(lines(text, 'txbox_relay_shards')).toEqual(['txbox_relay_shards 16'])
  }
  await isStale(1, 0)
  read = async () => Promise.reject(new Error('the database is gone'))
  await isStale(1, 1)
  const late = Promise.withResolvers<number>()
  read = () => late.promise
  await isStale(1, 1)
  await isStale(1, 1)
  expect(readings).toBe(3)
  read = async () => 3
  late.resolve(2)
  await isStale(2, 0)
  await isStale(3, 0)
})

test('a gauge that has never been read has no line, and an ended gauge has none any more', async () => {
  const metrics = prometheusTelemetry()
  const end = metrics.observe('txbox.relay.shards', async () => [{ value: 2, attributes: {} }])
  metrics.observe('txbox.queue.age', async () => Promise.reject(new Error('never')))
  expect(await metrics.text()).not.toContain('txbox_queue_age')
  end()
  expect(await metrics.text()).not.toContain('txbox_relay_shards')
})

test('two gauges of one name are one family, and the same labels occur once', async () => {
  const metrics = prometheusTelemetry()
  for (const value of [1, 2])
    metrics.observe('txbox.relay.shards', async () => [{ value, attributes: { a: 'b' } }])
  const text = await metrics.text()
  expect(lines(text, 'txbox_relay_shards')).toEqual(['txbox_relay_shards{a="b"} 2'])
  checkedByPromtool(text)
})

test('beyond 2000 time series, what is counted goes into one more series', async () => {
  const metrics = prometheusTelemetry()
  for (let n = 0; n < 2005; n += 1) metrics.count('txbox.inbox.messages', 1, { consumer: `c${n}` })
  metrics.count('txbox.inbox.messages', 1, { consumer: 'c0' })
  const text = await metrics.text()
  expect(lines(text, 'txbox_inbox_messages_total')).toHaveLength(2001)
  expect(text).toContain('txbox_inbox_messages_total{otel_metric_overflow="true"} 5\n')
  expect(text).toContain('txbox_inbox_messages_total{consumer="c0"} 2\n')
})

test('values that are no amounts are mistakes, which a guard keeps away from the work', async () => {
  const metrics = prometheusTelemetry()
  expect(() => metrics.count('txbox.inbox.messages', -1, {})).toThrow(RangeError)
  for (const seconds of [NaN, Infinity, -1, '5' as never])
    expect(() => metrics.record('txbox.relay.latency', seconds, {})).toThrow(RangeError)
  expect(await metrics.text()).not.toContain('txbox_relay')
  expect(await metrics.text()).not.toContain('txbox_inbox')
  const guarded = new GuardedTelemetry(metrics)
  expect(await guarded.span({ name: 's', kind: 'client', attributes: {} }, async () => 1)).toBe(1)
  expect(guarded.capture()).toBeUndefined()
})

test('wrong options are refused', () => {
  expect(() => prometheusTelemetry({ timeoutMs: 1 })).toThrow(InvalidOptionError)
  expect(() => prometheusTelemetry({ resource: [] as never })).toThrow(InvalidOptionError)
  expect(() => prometheusTelemetry({ port: 1 } as never)).toThrow(/no option 'port'/)
})
