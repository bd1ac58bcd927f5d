import { observeTables, whileInUse } from '@txbox/core/internal'
import type { ConsumerSettings } from '../options/consumer-settings.ts'

/** The gauges of a consumer that runs: its messages in flight, and those of the tables of its database, if it has one. */
export interface ConsumerGauges {
  /** Must be called when the stop begins: another process may read the tables. Never rejects, but may never resolve. */
  endTables(): Promise<void>
  /** Must be called when the consumer has no message in flight any more, or ends. */
  endOwn(): void
}

export function observeConsumer(
  { name, telemetry, work }: Pick<ConsumerSettings, 'name' | 'telemetry' | 'work'>,
  inFlight: () => number,
): ConsumerGauges {
  const attributes = { consumer: name }
  const endOwn = whileInUse(telemetry, (inUse) =>
    inUse.observe('txbox.consumer.in_flight.messages', async () => [{ value: inFlight(), attributes }]),
  )
  return { endTables: observeTables(work.ports, telemetry), endOwn }
}
