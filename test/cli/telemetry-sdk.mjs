// The SDK of OpenTelemetry as a service starts it, with exporters that send JSON to the address in RECEIVER_URL.
import { metrics } from '@opentelemetry/api'
import {
  AggregationTemporality,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics'
import { SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { NodeTracerProvider } from '@opentelemetry/sdk-trace-node'

const sending = new Set()

async function post(path, body) {
  try {
    await fetch(new URL(path, process.env.RECEIVER_URL), { method: 'POST', body: JSON.stringify(body) })
    return { code: 0 }
  } catch (error) {
    return { code: 1, error }
  }
}

async function send(path, body, done) {
  const sent = post(path, body)
  sending.add(sent)
  const result = await sent
  sending.delete(sent)
  done(result)
}

const flushed = async () => void (await Promise.all(sending))

const traces = new NodeTracerProvider({
  spanProcessors: [
    new SimpleSpanProcessor({
      export: (spans, done) =>
        void send(
          'traces',
          spans.map((span) => ({
            name: span.name,
            id: span.spanContext().spanId,
            links: span.links.map(({ context }) => context.traceId),
          })),
          done,
        ),
      forceFlush: flushed,
      shutdown: flushed,
    }),
  ],
})
traces.register()

const meters = new MeterProvider({
  readers: [
    new PeriodicExportingMetricReader({
      exportIntervalMillis: 200,
      exportTimeoutMillis: 200,
      exporter: {
        selectAggregationTemporality: () => AggregationTemporality.CUMULATIVE,
        export: ({ scopeMetrics }, done) =>
          void send(
            'metrics',
            scopeMetrics.flatMap((scope) =>
              scope.metrics.map(({ descriptor, dataPoints }) => ({
                name: descriptor.name,
                points: dataPoints.map(({ attributes, value }) => ({
                  attributes,
                  value: value.count ?? value,
                })),
              })),
            ),
            done,
          ),
        forceFlush: flushed,
        shutdown: flushed,
      },
    }),
  ],
})
metrics.setGlobalMeterProvider(meters)
process.once('beforeExit', () => void Promise.all([traces.shutdown(), meters.shutdown()]))
