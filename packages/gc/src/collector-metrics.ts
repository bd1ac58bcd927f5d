import type { Telemetry } from '@txbox/core'
import type { Collected } from './garbage-collector.ts'

/** The tables of each number of removed rows. Dead letters are of several tables. */
const TABLES = {
  inbox: 'inbox',
  deadLetters: 'dead_letters',
  redrives: 'redrives',
  bufferedDeadLetters: 'waiting',
  handled: 'queue',
} as const

/** Counts the rows that a run has removed. */
export function recordCollected(telemetry: Telemetry, collected: Collected): void {
  for (const [name, table] of Object.entries(TABLES) as [keyof typeof TABLES, string][]) {
    if (collected[name] > 0) telemetry.count('txbox.gc.removed.rows', collected[name], { table })
  }
  telemetry.record('txbox.gc.duration', collected.durationMs / 1000, {})
}
