import type { Telemetry } from '@txbox/core'

/** Begins the counters of a collector: one that begins at its first row would hide this row from rates. */
export function beginCollectorCounters(telemetry: Telemetry): void {
  for (const table of ['inbox', 'dead_letters', 'redrives', 'waiting', 'queue']) {
    telemetry.count('txbox.gc.removed.rows', 0, { table })
  }
}
