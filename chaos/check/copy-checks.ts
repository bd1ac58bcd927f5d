import { SHARDS, shardOf } from '@txbox/core/internal'
import type { Copy } from '../driver/recorder.ts'
import type { Evidence } from './evidence.ts'
import type { LeaseChange } from './history.ts'
import { found, ofKey, type Verdict, type Violation } from './violation.ts'

/** The database and the relay have the same clock; a relay may be slow between its read and its call. */
const CLOCK_SLACK_MS = 250

type Checked = Omit<Verdict, 'check'>

export function checkSameBytes({ copies, first }: Evidence): Checked {
  const differing = copies.filter(({ id, digest }) => first.get(id)!.digest !== digest)
  return found(
    'same bytes',
    copies.length,
    differing.map(({ id, key, relay }) => ({
      id,
      key,
      text: `A copy of the message ${id}${ofKey(key)} by ${relay} has other bytes than the first copy.`,
    })),
  )
}

/**
 * By place, within each key and epoch: messages that are committed after a failover belong to another epoch. A key continues
 * behind its dead letters, which are published when they are redriven.
 */
export function checkOrder({
  first,
  committed,
  lost,
  deadLetters,
}: Pick<Evidence, 'first' | 'committed' | 'lost' | 'deadLetters'>): Checked {
  const dead = new Set(deadLetters.map(({ id }) => id))
  const last = new Map<string, { readonly place: number; readonly copy: Copy }>()
  const violations: Omit<Violation, 'check'>[] = []
  let looked = 0
  for (const copy of [...first.values()].toSorted((a, b) => a.at - b.at)) {
    const message = committed.get(copy.id) ?? lost.get(copy.id)
    if (message?.place === undefined || dead.has(copy.id)) continue
    looked += 1
    const chain = `${message.key}@${message.epoch}`
    const before = last.get(chain)
    if (before !== undefined && before.place >= message.place) {
      violations.push({
        id: copy.id,
        key: message.key,
        text:
          `Change ${message.place} of ${chain} (${copy.id}) was first published by ${copy.relay} after change ` +
          `${before.place} (${before.copy.id}).`,
      })
    } else last.set(chain, { place: message.place, copy })
  }
  return found('order', looked, violations)
}

/** Groups the changes of owners, which a trigger logs, by shard, in the order of time. */
export function ownersOf(changes: readonly LeaseChange[]): ReadonlyMap<number, readonly LeaseChange[]> {
  const byShard = new Map<number, LeaseChange[]>(Array.from({ length: SHARDS }, (_, shard) => [shard, []]))
  for (const change of changes.toSorted((a, b) => a.atMs - b.atMs)) byShard.get(change.shard)?.push(change)
  return byShard
}

/**
 * Each call of a publisher must begin while its relay holds the shard. After a failover, two relays may trust in the
 * shard for the duration of a lease: the new primary may not know its last owner.
 */
export function checkOwners({
  copies,
  leaseChanges,
  failovers,
  leaseMs,
}: Pick<Evidence, 'copies' | 'leaseChanges' | 'failovers' | 'leaseMs'>): Checked {
  const owners = ownersOf(leaseChanges)
  const violations: Omit<Violation, 'check'>[] = []
  const seen = new Set<string>()
  let looked = 0
  for (const { id, key, relay, calledAtMs } of copies) {
    if (key === undefined) continue
    if (failovers.some((at) => calledAtMs > at - 2 * leaseMs && calledAtMs < at + 2 * leaseMs)) continue
    looked += 1
    const shard = shardOf(key)
    const changes = owners.get(shard)!
    // The relay that took the shard over long before the call, if the former relay has not taken it again since.
    const holder = changes.findLast(({ atMs }) => atMs < calledAtMs - CLOCK_SLACK_MS)
    const holdsShard = changes.some(
      ({ atMs, owner }) => owner === relay && atMs <= calledAtMs && atMs >= (holder?.atMs ?? -Infinity),
    )
    const call = `${relay} ${calledAtMs}`
    if (holder === undefined || holdsShard || seen.has(call)) continue
    seen.add(call)
    violations.push({
      id,
      key,
      text:
        `${relay} published the message ${id}${ofKey(key)} by a call that began ` +
        `${Math.round(calledAtMs - holder.atMs)} ms after shard ${shard} had gone to ${holder.owner ?? 'nobody'}.`,
    })
  }
  return found('one owner', looked, violations)
}

/** How long before a failover a copy may be published whose settlement the standby has not received. */
const UNSETTLED_BEFORE_MS = 2000

/**
 * From the beginning of each fault to the beginning of the next: at most one batch for each shard, and one more for
 * each fault, each death of a relay, and each change of the shard's owner. Messages that were published while a standby
 * was behind do not count: the failover lost their settlements.
 */
export function checkDuplicates({
  copies,
  timeline,
  relayDeaths,
  leaseChanges,
  batchSize,
}: Evidence): Checked {
  const faults = timeline.filter(({ kind }) => kind === 'fault')
  const failovers = faults.filter(({ name }) => FAILOVERS.has(name))
  const starts = faults.map(({ fromMs }) => fromMs).toSorted((a, b) => a - b)
  const owners = ownersOf(leaseChanges)
  const firstAt = new Map<string, number>()
  const counts = new Map<string, { count: number; window: number; shard: number; id: string }>()
  for (const { id, key, recordedAtMs } of copies) {
    const first = firstAt.get(id)
    if (first === undefined) {
      firstAt.set(id, recordedAtMs)
      continue
    }
    if (key === undefined) continue
    const isUnsettled = failovers.some(
      ({ fromMs, toMs }) => first >= fromMs - UNSETTLED_BEFORE_MS && first <= toMs && recordedAtMs >= fromMs,
    )
    if (isUnsettled) continue
    const window = starts.findLastIndex((at) => at <= recordedAtMs)
    const shard = shardOf(key)
    const place = `${window} ${shard}`
    const entry = counts.get(place) ?? { count: 0, window, shard, id }
    entry.count += 1
    counts.set(place, entry)
  }
  const violations = [...counts.values()].flatMap(({ count, window, shard, id }) => {
    const from = starts[window] ?? -Infinity
    const to = starts[window + 1] ?? Infinity
    const causes =
      relayDeaths.filter((at) => at >= from && at < to).length +
      owners.get(shard)!.filter(({ atMs }) => atMs >= from && atMs < to).length +
      faults.filter(({ fromMs, toMs }) => fromMs < to && toMs >= from).length
    const bound = batchSize * (1 + causes)
    if (count <= bound) return []
    return [
      {
        id,
        text: `Shard ${shard} had ${count} duplicates after fault ${window + 1}; the bound is ${bound}.`,
      },
    ]
  })
  return found('duplicates', copies.length, violations)
}

const FAILOVERS: ReadonlySet<string> = new Set(['failover', 'failover-in-flight'])
