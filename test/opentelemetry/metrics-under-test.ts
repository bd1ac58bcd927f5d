import { metrics } from '@opentelemetry/api'
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
  type InstrumentType,
  type MetricData,
} from '@opentelemetry/sdk-metrics'
import { afterAll, beforeAll } from 'vitest'

/** The metrics that the SDK of OpenTelemetry exports, to memory, when a test asks. */
export class MetricsUnderTest {
  readonly #exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
  readonly provider: MeterProvider

  /** @param temporalityOf the temporality by the type of the instrument. @default cumulative, which is that of exporters */
  constructor(temporalityOf?: (type: InstrumentType) => AggregationTemporality) {
    const exporter = this.#exporter
    if (temporalityOf !== undefined) exporter.selectAggregationTemporality = temporalityOf
    this.provider = new MeterProvider({
      readers: [new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 })],
    })
  }

  async metric(name: string): Promise<MetricData | undefined> {
    this.#exporter.reset()
    await this.provider.forceFlush()
    const scopes = this.#exporter.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics)
    return scopes.flatMap((scope) => scope.metrics).find(({ descriptor }) => descriptor.name === name)
  }

  /** The points of a metric whose attributes contain these. */
  async pointsOf(name: string, attributes: object = {}): Promise<MetricData['dataPoints'][number][]> {
    const points: MetricData['dataPoints'] = (await this.metric(name))?.dataPoints ?? []
    return points.filter((point) =>
      Object.entries(attributes).every(([key, value]) => point.attributes[key] === value),
    )
  }

  /** The sum of the values of a counter or gauge, or the number of values of a histogram, whose attributes contain these. */
  async valueOf(name: string, attributes: object = {}): Promise<number> {
    const points = await this.pointsOf(name, attributes)
    return points.reduce((sum, { value }) => sum + (typeof value === 'number' ? value : value.count), 0)
  }
}

/** The SDK, which is that of the process while the tests of a file run. */
export function useMetrics(): MetricsUnderTest {
  const subject = new MetricsUnderTest()
  beforeAll(() => void metrics.setGlobalMeterProvider(subject.provider))
  afterAll(async () => {
    metrics.disable()
    await subject.provider.shutdown()
  })
  return subject
}
