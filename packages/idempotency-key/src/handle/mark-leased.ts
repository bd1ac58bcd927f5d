import type { Claim, ConnectedPorts } from '@txbox/core/ports'
import { attemptsOnConflict } from '@txbox/core/internal'
import { HTTP_CONSUMER } from './keyed-request.ts'

const ATTEMPTS = 5

/** The result of a claim of the inbox whose request is handled under a lease: its response is not in the inbox. */
export const LEASED_MARK = '{"leased":true}'

/**
 * Claims a key in the inbox, so that a handler in a transaction does not run for a key of a handler under a lease, nor the other way
 * round. The caller holds the lease of the key.
 *
 * @returns `'in-flight'` while a handler in a transaction has claimed the key, and `'refused'` after it.
 */
export async function markLeased(
  ports: ConnectedPorts,
  {
    key,
    retentionMs,
    leaseMs,
  }: { readonly key: string; readonly retentionMs: number; readonly leaseMs: number },
  signal: AbortSignal,
): Promise<'marked' | 'in-flight' | 'refused'> {
  const { inbox } = ports
  const claim: Claim = {
    consumer: HTTP_CONSUMER,
    key,
    correlationId: undefined,
    retentionMs,
    result: LEASED_MARK,
  }
  const mark = (): Promise<'marked' | 'in-flight' | 'refused'> =>
    ports.transact(
      async (_, session) => {
        const found = await inbox.claim(session, claim, { inFlight: 'report' })
        if (found.status !== 'duplicate') return found.status === 'won' ? 'marked' : 'in-flight'
        if (found.result !== LEASED_MARK) return 'refused'
        // The mark of an earlier request that has failed would end before the response of this one.
        await inbox.remove(session, HTTP_CONSUMER, key)
        await inbox.claim(session, claim)
        return 'marked'
      },
      // A process that is frozen here must not keep the key for longer than the lease.
      { signal, idleLimitMs: leaseMs },
    )
  return attemptsOnConflict(mark, ports, { attempts: ATTEMPTS, signal })
}
