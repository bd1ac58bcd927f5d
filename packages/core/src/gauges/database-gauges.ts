import type { InspectionStore } from '../ports/inspection-store.ts'
import { CachedReading } from './cached-reading.ts'
import { GAUGE_PARTS, type GaugePart } from './gauge-parts.ts'
import type { Telemetry } from '../telemetry/telemetry.ts'

/**
 * Lets a telemetry read the gauges of the tables when it wants them, such as at a scrape. The parts are read one after another, on
 * one connection at a time. Each part is read at most every `everyMs` milliseconds.
 *
 * @param failed is called for each reading that fails. The telemetry gets the error too.
 * @returns a function that ends all gauges.
 */
export function observeDatabase(
  telemetry: Telemetry,
  inspection: InspectionStore,
  {
    everyMs,
    failed,
  }: { readonly everyMs: number; readonly failed: (part: GaugePart, error: unknown) => void },
): () => void {
  const ends: (() => void)[] = []
  let turn: Promise<unknown> = Promise.resolve()
  for (const part of GAUGE_PARTS) {
    const reading = new CachedReading(everyMs, () => {
      const own = turn.then(() => part.read(inspection))
      turn = own.catch((error: unknown) => failed(part, error))
      return own
    })
    for (const metric of part.metrics) {
      ends.push(telemetry.observe(metric, async () => (await reading.get()).get(metric) ?? []))
    }
  }
  return () => ends.splice(0).forEach((end) => end())
}
