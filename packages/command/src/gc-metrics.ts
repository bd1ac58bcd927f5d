import type { Telemetry } from '@txbox/core'

/** Starts the counters of a collector at 0: `rate()` would not see the first row of a counter that appears with this row. */
export function beginCollectorCounters(telemetry: Telemetry): void {
  for (const table of ['inbox', 'dead_letters', 'redrives', 'waiting', 'queue']) {
    telemetry.count('txbox.gc.removed.rows', 0, { table })
  }
}
