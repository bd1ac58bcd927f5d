import type { ConnectedPorts } from '@txbox/core/ports'

/** The concurrency of a local consumer if the pool has room for it, or does not show how much it has. */
export const DEFAULT_CONCURRENCY = 10

/** The connections that are left to others: four for the loops of all local consumers, and two for the service itself. */
const OTHER_CONNECTIONS = 6

/** The concurrency of one running local consumer. */
interface Share {
  /** The option of the user; `undefined`: what the pool leaves. */
  readonly given: number | undefined
  readonly set: (concurrency: number) => void
}

const shares = new WeakMap<ConnectedPorts, Set<Share>>()

/**
 * Shares the connections of a pool among the local consumers that run on it and whose users have set no concurrency: 1 to 10 each.
 *
 * @returns a function to call when the consumer has stopped.
 */
export function shareConcurrency(ports: ConnectedPorts, share: Share): () => void {
  const all = shares.get(ports) ?? new Set<Share>()
  shares.set(ports, all.add(share))
  divide(ports, all)
  return () => {
    if (all.delete(share)) divide(ports, all)
  }
}

function divide(ports: ConnectedPorts, all: ReadonlySet<Share>): void {
  const open = [...all].filter(({ given }) => given === undefined)
  const most = ports.maxConnections?.()
  const taken = [...all].reduce((sum, { given = 0 }) => sum + given, OTHER_CONNECTIONS)
  const each = most === undefined ? DEFAULT_CONCURRENCY : Math.floor((most - taken) / open.length)
  for (const { set } of open) set(Math.max(1, Math.min(DEFAULT_CONCURRENCY, each)))
}
