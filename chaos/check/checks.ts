import { RELAY_ATTEMPTS } from '../workers/limits.ts'
import type { Evidence } from './evidence.ts'
import { checkCharges } from './charge-checks.ts'
import { checkHttpAnswers, checkHttpEffects, checkHttpResponses, checkHttpStandstill } from './http-checks.ts'
import {
  checkLocalDeadLetters,
  checkLocalEffects,
  checkLocalOrder,
  checkLocalOverlap,
  earlyAtLocal,
} from './local-checks.ts'
import {
  checkQueueDeadLetters,
  checkQueueEffects,
  checkQueueOrder,
  checkQueueOverlap,
  earlyInQueue,
} from './queue-checks.ts'
import type { Committed } from './history.ts'
import { checkDuplicates, checkOrder, checkOwners, checkSameBytes } from './copy-checks.ts'
import type { StuckKey } from './queue-history.ts'
import { CHECKS, found, ofKey, type CheckName, type Verdict, type Violation } from './violation.ts'

/** A message that is being tried alone may be hit by another fault: its attempt counts as well. */
const SPARE_KILLS = 6

const REFUSING_FAULTS: ReadonlySet<string> = new Set(['queue-full', 'binding-removed'])
/** The least time that all attempts of a relay take. */
const LEAST_ATTEMPTS_MS = 5000

/** The verdicts on a run, one for each check. */
export function judge(evidence: Evidence): readonly Verdict[] {
  const checks: Readonly<Record<CheckName, (evidence: Evidence) => Omit<Verdict, 'check'>>> = {
    published: checkPublished,
    'rolled back': checkRolledBack,
    'same bytes': checkSameBytes,
    order: checkOrder,
    scheduled: checkScheduled,
    deduplicated: checkDeduplicated,
    'one effect': checkOneEffect,
    'claim and effect': checkClaims,
    'consumer dead letters': checkConsumerDeadLetters,
    'queue effect': checkQueueEffects,
    'queue order': checkQueueOrder,
    'one at a time': checkQueueOverlap,
    'stuck key': checkStuckKeys,
    'queue dead letters': checkQueueDeadLetters,
    'local effect': checkLocalEffects,
    'local order': checkLocalOrder,
    'local one at a time': checkLocalOverlap,
    'local dead letters': checkLocalDeadLetters,
    'http effect': checkHttpEffects,
    'http answer': checkHttpAnswers,
    'http response': checkHttpResponses,
    'http charge': checkCharges,
    'http standstill': checkHttpStandstill,
    'version order': checkVersions,
    'nothing left': ({ left }) => found('nothing left', 1, left),
    standstill: ({ standstills, timeline }) => found('standstill', timeline.length, texts(standstills)),
    'one owner': checkOwners,
    fence: checkFence,
    'killing message': checkKills,
    duplicates: checkDuplicates,
    'dead letters': checkDeadLetters,
    resources: ({ resources, timeline }) => found('resources', timeline.length, texts(resources)),
    'clean end': ({ unclean }) => found('clean end', 9, texts(unclean)),
  }
  return (Object.keys(CHECKS) as CheckName[]).map((check) => {
    const { looked, violations } = checks[check](evidence)
    return { check, looked, violations }
  })
}

function texts(list: readonly string[]): readonly { text: string }[] {
  return list.map((text) => ({ text }))
}

function checkPublished({ committed, first }: Evidence): Omit<Verdict, 'check'> {
  const missing = [...committed.values()].filter(({ id }) => !first.has(id))
  return found(
    'published',
    committed.size,
    missing.map(({ id, key, producer }) => ({
      id,
      key,
      text: `The message ${id}${ofKey(key)} was committed by ${producer} and never published.`,
    })),
  )
}

function checkRolledBack({ committed, lost, first }: Evidence): Omit<Verdict, 'check'> {
  const unknown = [...first.values()].filter(({ id }) => !committed.has(id) && !lost.has(id))
  return found(
    'rolled back',
    first.size,
    unknown.map(({ id, key, relay }) => ({
      id,
      key,
      text: `The message ${id}${ofKey(key)} was published by ${relay}, and no transaction committed it.`,
    })),
  )
}

function checkScheduled(evidence: Evidence): Omit<Verdict, 'check'> {
  const { committed, lost, first } = evidence
  const inQueue = earlyInQueue(evidence)
  const atLocal = earlyAtLocal(evidence)
  const scheduled = [...committed.values(), ...lost.values()].filter(
    (message) => message.deliverAtMs !== undefined,
  )
  const early = scheduled.filter(
    ({ id, deliverAtMs }) => (first.get(id)?.recordedAtMs ?? Infinity) < deliverAtMs! - 1,
  )
  return found('scheduled', scheduled.length + inQueue.looked + atLocal.looked, [
    ...early.map(({ id, deliverAtMs }) => ({
      id,
      text: `The message ${id} came ${Math.round(deliverAtMs! - first.get(id)!.recordedAtMs)} ms before it was due.`,
    })),
    ...inQueue.violations,
    ...atLocal.violations,
  ])
}

function checkStuckKeys({ stuckKeys, queued }: Evidence): Omit<Verdict, 'check'> {
  return found('stuck key', queued.size, stuckKeys.map(stuckKey))
}

export function stuckKey({ key, messages, id }: StuckKey): Omit<Violation, 'check'> {
  return {
    id,
    key,
    text: `${messages} messages of ${key} wait in the queue, and no receiver will look at any of them, such as ${id}.`,
  }
}

function checkDeduplicated({ sends }: Evidence): Omit<Verdict, 'check'> {
  const stored = new Map<string, string>()
  const violations: Omit<Violation, 'check'>[] = []
  for (const { request, id, newId } of sends) {
    if (id !== newId) continue
    const other = stored.get(request)
    if (other === undefined) stored.set(request, id)
    else violations.push({ id, text: `The request ${request} has two messages: ${other} and ${id}.` })
  }
  for (const { request, id } of sends) {
    const first = stored.get(request)
    if (first === undefined) {
      violations.push({
        id,
        text: `A send of the request ${request} named ${id}, and no send stored a message.`,
      })
    } else if (id !== first && !violations.some((violation) => violation.id === id)) {
      violations.push({ id, text: `A send of the request ${request} named ${id}; the message is ${first}.` })
    }
  }
  return found('deduplicated', sends.length, violations)
}

function checkOneEffect({ first, effects }: Evidence): Omit<Verdict, 'check'> {
  const counts = new Map<string, number>()
  for (const { id } of effects) counts.set(id, (counts.get(id) ?? 0) + 1)
  const wrong = [...first.values()].filter(({ id }) => counts.get(id) !== 1)
  const invented = [...counts.keys()].filter((id) => !first.has(id))
  return found('one effect', first.size, [
    ...wrong.map(({ id, key }) => ({
      id,
      key,
      text: `The message ${id}${ofKey(key)} was published and has ${counts.get(id) ?? 0} effects.`,
    })),
    ...invented.map((id) => ({ id, text: `The message ${id} has an effect, and was never published.` })),
  ])
}

function checkClaims({ claims, effects }: Evidence): Omit<Verdict, 'check'> {
  const claimed = new Set(claims)
  const effected = new Set(effects.map(({ id }) => id))
  return found('claim and effect', claims.length, [
    ...claims
      .filter((id) => !effected.has(id))
      .map((id) => ({ id, text: `The message ${id} has a claim and no effect.` })),
    ...[...effected]
      .filter((id) => !claimed.has(id))
      .map((id) => ({ id, text: `The message ${id} has an effect and no claim.` })),
  ])
}

/** Only a message that failed in all its deliveries may be a dead letter. */
function checkConsumerDeadLetters({
  consumerDeadLetters,
  committed,
  lost,
}: Evidence): Omit<Verdict, 'check'> {
  const messageOf = (id: string): Committed | undefined => committed.get(id) ?? lost.get(id)
  const innocent = consumerDeadLetters.filter(({ id }) => {
    const ill = messageOf(id)?.ill
    return ill === undefined || ill.endsWith('-relay')
  })
  return found(
    'consumer dead letters',
    consumerDeadLetters.length,
    innocent.map(({ id, error }) => ({
      id,
      key: messageOf(id)?.key,
      text: `A consumer gave the message ${id} up: ${error ?? 'no error is stored'}.`,
    })),
  )
}

function checkVersions({ applied, balances }: Evidence): Omit<Verdict, 'check'> {
  const at = new Map<string, number>()
  const violations: Omit<Violation, 'check'>[] = []
  for (const { versionKey, from, id } of applied) {
    const before = at.get(versionKey) ?? 0
    const key = versionKey.replace(/@.*/, '')
    if (from !== before) {
      violations.push({
        id,
        key,
        text: `${versionKey} was at version ${before} when the change from ${from} was applied.`,
      })
    }
    at.set(versionKey, from + 1)
  }
  for (const [versionKey, version] of at) {
    const balance = balances.get(versionKey)
    if (balance?.version === version && balance.total === version) continue
    const key = versionKey.replace(/@.*/, '')
    violations.push({
      key,
      text: `${versionKey}: ${version} changes were applied, and its row has version ${balance?.version} and total ${balance?.total}.`,
    })
  }
  return found('version order', applied.length, violations)
}

function checkFence({ unfenced, leaseChanges }: Evidence): Omit<Verdict, 'check'> {
  return found(
    'fence',
    leaseChanges.length,
    unfenced.map(({ id, shard, owner, settledBy }) => ({
      id,
      text: `${settledBy} settled the message ${id} of shard ${shard}, whose lease ${owner ?? 'nobody'} held.`,
    })),
  )
}

export function checkKills({ kills }: Pick<Evidence, 'kills'>): Omit<Verdict, 'check'> {
  const counts = new Map<string, number>()
  for (const id of kills) counts.set(id, (counts.get(id) ?? 0) + 1)
  const bound = RELAY_ATTEMPTS + SPARE_KILLS
  const above = [...counts].filter(([, count]) => count > bound)
  return found(
    'killing message',
    counts.size,
    above.map(([id, count]) => ({
      id,
      text: `The message ${id} has killed ${count} relays; after ${RELAY_ATTEMPTS} attempts it should be a dead letter.`,
    })),
  )
}

/** Messages may become dead letters if the broker refuses them for longer than the attempts take. */
function checkDeadLetters({ deadLetters, committed, timeline }: Evidence): Omit<Verdict, 'check'> {
  const isLong = timeline.some(
    ({ name, fromMs, toMs }) => REFUSING_FAULTS.has(name) && toMs - fromMs > LEAST_ATTEMPTS_MS,
  )
  if (isLong) return found('dead letters', 0, [])
  const innocent = deadLetters.filter(({ id }) => !committed.get(id)?.ill?.endsWith('-relay'))
  return found(
    'dead letters',
    deadLetters.length,
    innocent.map(({ id, error }) => ({
      id,
      key: committed.get(id)?.key,
      text: `The message ${id} became a dead letter: ${error ?? 'no error is stored'}.`,
    })),
  )
}
