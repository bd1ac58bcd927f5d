import type { Telemetry } from '@txbox/core'
import type { InspectionStore } from '@txbox/core/ports'
import { RepeatedTrouble, observeDatabase, reasonOf, registeredTelemetry } from '@txbox/core/internal'
import { prometheusTelemetry, type PrometheusTelemetry } from '@txbox/prometheus'
import { readVersion } from './read-version.ts'
import type { stderrLog } from './stderr-log.ts'

/** The database is read at most this often, so a figure is at most this old, however often the metrics are scraped. */
const READ_EVERY_MS = 5000
/** How long a scrape waits for the database and for the publisher. */
const SCRAPE_TIMEOUT_MS = 2000

/** The metrics of a process of the command: the gauges of its database, and what the process itself adds. */
export function commandMetrics(
  command: 'relay' | 'gc',
  inspection: InspectionStore,
  log: ReturnType<typeof stderrLog>,
): PrometheusTelemetry {
  const metrics = prometheusTelemetry({
    resource: {
      'service.name': process.env['OTEL_SERVICE_NAME'] || `txbox-${command}`,
      'service.version': readVersion(),
    },
    timeoutMs: SCRAPE_TIMEOUT_MS,
  })
  const trouble = new RepeatedTrouble()
  observeDatabase(metrics, inspection, {
    everyMs: READ_EVERY_MS,
    failed: (part, error) =>
      trouble.report(part.name, (times) => {
        const reason = reasonOf(error)
        log.warn(
          { event: 'metrics', part: part.name, error: reason, times },
          `The metrics of ${part.subject} cannot be read: ${reason}`,
        )
      }),
  })
  return metrics
}

/**
 * Returns the telemetry of a process whose metrics are scraped. A telemetry that is registered for the process gets the traces, and
 * the same counts and durations.
 */
export function besideRegistered(metrics: Telemetry): Telemetry {
  return {
    capture: () => registeredTelemetry()?.capture(),
    span: (description, work) => (registeredTelemetry() ?? metrics).span(description, work),
    count(metric, value, attributes) {
      metrics.count(metric, value, attributes)
      registeredTelemetry()?.count(metric, value, attributes)
    },
    record(metric, seconds, attributes) {
      metrics.record(metric, seconds, attributes)
      registeredTelemetry()?.record(metric, seconds, attributes)
    },
    // The command reads the gauges of its own metrics at the scrape.
    observe: (metric, read) => registeredTelemetry()?.observe(metric, read) ?? (() => undefined),
  }
}
