import type { ConnectedDatabase } from '@txbox/core'
import { stoppedBy } from '@txbox/core/internal'
import { Ambient } from './ambient.ts'
import { Box } from './box.ts'
import type { TxboxOptions } from './box-options.ts'
import { boxParts } from './box-parts.ts'
import { checkBoxOptions, creating } from './box-settings.ts'
import { boxSender } from './box-sender.ts'
import type { Txbox } from './txbox.ts'

/**
 * Creates a box: an outbox, local consumers, a relay, consumers of brokers and a garbage collector on one database, which start
 * and stop together. It has no rule of its own: each part is the one that `createLocalConsumer`, `createRelay` and the others
 * create.
 *
 * ```ts
 * const box = createTxbox({
 *   database: postgres({ db: pool }),
 *   consumers: {
 *     billing: { 'order.placed': async (tx, { key }) => void (await tx.query('insert into invoices values ($1)', [key])) },
 *   },
 * })
 * await box.start()
 * await box.transact(async (tx) => {
 *   await tx.query('insert into orders values ($1)', ['o1'])
 *   await box.publish({ type: 'order.placed', key: 'o1', payload: {} })
 * })
 * ```
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option of the box or of a part, which the error names.
 */
export function createTxbox<Tx, Name extends string = never, SourceName extends string = never>(
  options: TxboxOptions<Tx, Name, SourceName>,
): Txbox<Tx, Name, SourceName> {
  const settings = checkBoxOptions(options)
  const ambient = new Ambient()
  const database = options.database as ConnectedDatabase<unknown>
  const parts = boxParts(settings, { ambient, database, isolationLevel: options.isolationLevel })
  const send = creating('publish', () => boxSender(settings, options, database))
  const box = new Box(settings, { ambient, database, parts, send })
  return stoppedBy(settings.signal, box) as unknown as Txbox<Tx, Name, SourceName>
}
