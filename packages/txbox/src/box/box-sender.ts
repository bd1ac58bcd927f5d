import type { ConnectedDatabase } from '@txbox/core'
import { createOutbox, type SubscribedOutbox } from '@txbox/outbox'
import type { TxboxOptions } from './box-options.ts'
import type { BoxSettings } from './box-settings.ts'
import { subscriptionsOf } from './local-parts.ts'

/** Stores messages for the consumers of a box, for those that are registered, and for those that were named. */
export function boxSender(
  { consumers, sources, subscriptions, telemetry }: BoxSettings,
  { unrouted, notify }: Pick<TxboxOptions<unknown>, 'unrouted' | 'notify'>,
  database: ConnectedDatabase<unknown>,
): SubscribedOutbox {
  return createOutbox({
    database,
    subscriptions: subscriptionsOf(subscriptions, consumers, sources) as Readonly<
      Record<string, readonly string[]>
    >,
    registered: true,
    unrouted,
    telemetry,
    ...(notify !== undefined && { notify }),
  })
}
