import type { InspectionStore } from '@txbox/core/ports'
import { OK, type Health } from './health-server.ts'

export const PROBE_TIMEOUT_MS = 2000

/** Asks the database whether it answers. Sends only one query at a time, however many probes arrive. */
export function databaseProbe(inspection: InspectionStore): () => Promise<Health> {
  let asking: Promise<Health> | undefined
  return () => {
    asking ??= inspection
      .answers(PROBE_TIMEOUT_MS)
      .then(
        (): Health => OK,
        (): Health => ({
          ok: false,
          reason: 'the database does not answer, or its tables have another revision',
        }),
      )
      .finally(() => (asking = undefined))
    return asking
  }
}
