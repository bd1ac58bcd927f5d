import type { Publisher } from '@txbox/relay'
import type * as mysql2 from 'mysql2'
import type * as pg from 'pg'
import type { DriverName, Installation } from './installation.ts'

interface Loaded {
  readonly pg: Pick<typeof pg, 'Client' | 'Pool'>
  readonly mysql2: Pick<typeof mysql2, 'createPool'>
  readonly '@txbox/rabbitmq': {
    readonly rabbitmqPublisher: (options: Readonly<Record<string, unknown>>) => Publisher
  }
}

export async function loadDriver<Name extends DriverName>(
  { drivers }: Installation,
  name: Name,
): Promise<Loaded[Name]> {
  return (await drivers[name]()) as Loaded[Name]
}
