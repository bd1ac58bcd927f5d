import { observeTables, whileInUse } from '@txbox/core/internal'
import type { ConsumerSettings } from '../options/consumer-settings.ts'

/**
 * The gauges of a consumer that runs: its messages in flight, and those of the tables of its database, if it has one.
 *
 * @returns a function that ends this. Its promise never rejects.
 */
export function observeConsumer(
  { name, telemetry, work }: Pick<ConsumerSettings, 'name' | 'telemetry' | 'work'>,
  inFlight: () => number,
): () => Promise<void> {
  const attributes = { consumer: name }
  const endOwn = whileInUse(telemetry, (inUse) =>
    inUse.observe('txbox.consumer.in_flight.messages', async () => [{ value: inFlight(), attributes }]),
  )
  const endTables = observeTables(work.ports, telemetry)
  return () => {
    endOwn()
    return endTables()
  }
}
