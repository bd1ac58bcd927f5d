import type { Claim, ConnectedPorts } from '@txbox/core/ports'
import { attemptsOnConflict } from '@txbox/core/internal'
import { HTTP_CONSUMER } from './keyed-request.ts'

const ATTEMPTS = 5
/** How often the key is claimed again, if its mark was removed before it could be extended. */
const LOOKS = 5
/** The longest wait for a transaction that has locked the mark, in milliseconds. MySQL and MariaDB wait for a second. */
const LOCK_TIMEOUT_MS = 200

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
  const claim = {
    consumer: HTTP_CONSUMER,
    key,
    correlationId: undefined,
    retentionMs,
    result: LEASED_MARK,
  } satisfies Claim
  const mark = (): Promise<'marked' | 'in-flight' | 'refused'> =>
    ports.transact(
      async (_, session) => {
        for (let look = 0; look < LOOKS; look++) {
          const found = await inbox.claim(session, claim, { inFlight: 'report' })
          if (found.status !== 'duplicate') return found.status === 'won' ? 'marked' : 'in-flight'
          if (found.result !== LEASED_MARK) return 'refused'
          // Without this, the mark of an earlier request that has failed would expire before the response of this one.
          if (await inbox.extend(session, claim, { lockTimeoutMs: LOCK_TIMEOUT_MS })) return 'marked'
        }
        return 'in-flight'
      },
      // A process that is frozen here must not keep the key for longer than the lease.
      { signal, idleLimitMs: leaseMs },
    )
  return attemptsOnConflict(mark, ports, { attempts: ATTEMPTS, signal })
}
