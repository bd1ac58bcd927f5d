import type { Telemetry } from '@txbox/core'
import type { Collected, GarbageCollector } from '@txbox/gc'

/** The rows of a run by their label. Dead letters are in several tables. */
const ROWS = {
  inbox: 'inbox',
  deadLetters: 'dead_letters',
  bufferedDeadLetters: 'version_buffers',
  redrives: 'redrives',
  handled: 'queue',
} as const satisfies Partial<Record<keyof Collected, string>>

/** Counts what the runs of a collector report. */
export function observeCollector(telemetry: Telemetry, gc: GarbageCollector): void {
  const count = (found: Readonly<Partial<Record<keyof typeof ROWS, number>>>): void => {
    for (const [name, table] of Object.entries(ROWS)) {
      telemetry.count('txbox.gc.removed.rows', found[name as keyof typeof ROWS] ?? 0, { table })
    }
  }
  count({})
  gc.on('collected', (collected) => {
    count(collected)
    telemetry.record('txbox.gc.duration', collected.durationMs / 1000, {})
  })
}
