import * as fc from 'fast-check'
import { expect } from 'vitest'
import type { TxboxErrorCode } from '@txbox/core'
import { businessKey, createInbox, fingerprint, messageId } from '@txbox/inbox'
import { createOutbox } from '@txbox/outbox'
import { postgres } from '@txbox/postgres'
import { fuzz } from '../../support/worlds/fuzz.ts'
import {
  anything,
  hostileJson,
  hostileRecord,
  hostileText,
  withOwnMembers,
} from '../../support/worlds/hostile-values.ts'
import { expectRefusal, outcomeOf, outcomeOfAsync } from '../../support/worlds/refusals.ts'

const outbox = createOutbox({ database: postgres() })

/** Without a transaction, a valid message reaches the check of the transaction. */
const REFUSALS: readonly TxboxErrorCode[] = ['TXBOX_INVALID_MESSAGE', 'TXBOX_UNSUPPORTED_TRANSACTION']

const payload = fc.oneof(hostileJson(), fc.uint8Array(), hostileText())

/** A message to publish, with valid and hostile members. */
const newMessage = hostileRecord({
  topic: hostileText(),
  type: hostileText(),
  key: hostileText(),
  payload,
  contentType: fc.oneof(hostileText(), fc.constantFrom('text/plain', 'application/json', 'a/b+json; x')),
  headers: fc.array(fc.tuple(hostileText(), hostileText()), { maxLength: 4 }).map(withOwnMembers),
  id: hostileText(),
  correlationId: hostileText(),
  deliverAt: fc.date({ noInvalidDate: false }),
})

fuzz('publish refuses what it cannot store', 1500, fc.oneof(newMessage, anything()), async (message) => {
  const outcome = await outcomeOfAsync(() => outbox.publish({} as never, message as never))
  if ('thrown' in outcome) expectRefusal(outcome.thrown, ...REFUSALS)
})

const lists = fc.array(fc.oneof(newMessage, anything()), { maxLength: 4 })

fuzz(
  'publish refuses lists, with and without holes',
  800,
  fc.tuple(lists, fc.nat(3)),
  async ([messages, hole]) => {
    const list = withHoles(messages, hole)
    const outcome = await outcomeOfAsync(() => outbox.publish({} as never, list as never))
    if ('thrown' in outcome) expectRefusal(outcome.thrown, ...REFUSALS)
  },
)

/** A copy with missing elements at its end. */
function withHoles(list: readonly unknown[], holes: number): unknown[] {
  return Object.assign([...list], { length: list.length + holes })
}

/** A message as it was delivered. */
const delivered = hostileRecord({
  id: hostileText(),
  source: hostileText(),
  type: hostileText(),
  payload,
  headers: fc.array(fc.tuple(hostileText(), hostileText()), { maxLength: 4 }).map(withOwnMembers),
  correlationId: hostileText(),
  time: fc.date({ noInvalidDate: false }),
})

const extractors = fc.constantFrom(
  messageId(),
  fingerprint(),
  fingerprint({ include: ['/secret', '/0/a'], exclude: ['/secret/x', '/__proto__'] }),
  businessKey(({ id }) => id),
  businessKey(({ id, type }) => [id, type!]),
)

fuzz(
  'an inbox refuses a message without a usable key',
  1500,
  fc.tuple(fc.oneof(delivered, anything()), extractors),
  async (given) => {
    const [message, key] = given
    const inbox = createInbox({ database: postgres(), consumer: 'c', key })
    for (const call of [
      () => inbox.process({} as never, message as never, () => 1),
      () => inbox.hasProcessed({} as never, message as never),
      () => inbox.markProcessed({} as never, message as never),
      () => inbox.forget({} as never, message as never),
      () => inbox.processBatch({} as never, [message] as never, () => 1),
    ]) {
      const outcome = await outcomeOfAsync<unknown>(call)
      if ('thrown' in outcome) expectRefusal(outcome.thrown, ...REFUSALS)
    }
  },
)

fuzz(
  'a batch is a list of messages, or refused',
  600,
  fc.oneof(fc.tuple(fc.array(delivered, { maxLength: 4 }), fc.nat(2)), fc.tuple(anything(), fc.constant(0))),
  async ([given, hole]) => {
    const batch = hole > 0 && Array.isArray(given) ? withHoles(given, hole) : given
    const inbox = createInbox({ database: postgres(), consumer: 'c' })
    const outcome = await outcomeOfAsync(() => inbox.processBatch({} as never, batch as never, () => 1))
    if ('thrown' in outcome) expectRefusal(outcome.thrown, ...REFUSALS)
  },
)

const steps = fc
  .array(hostileText(), { maxLength: 3 })
  .map((names) => names.map((name) => `/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`).join(''))
const pointers = fc.array(fc.oneof(steps, hostileText()), { maxLength: 4 })
const selection = fc.oneof(hostileRecord({ include: pointers, exclude: pointers }), anything())

fuzz(
  'a fingerprint selects fields by hostile pointers, or is refused',
  1500,
  fc.tuple(selection, payload),
  ([options, content]) => {
    const made = outcomeOf(() => fingerprint(options as object))
    if ('thrown' in made) return expectRefusal(made.thrown, 'TXBOX_INVALID_OPTION')
    const drawn = outcomeOf(() => made.result({ id: '1', payload: content }))
    if ('thrown' in drawn) return expectRefusal(drawn.thrown, 'TXBOX_INVALID_MESSAGE')
    expect(drawn.result).toMatch(/^fingerprint:[0-9a-f]{64}$/)
  },
)

fuzz(
  'K7 the order of members does not change a fingerprint, whatever their names',
  800,
  fc.tuple(fc.array(fc.tuple(hostileText(), hostileJson()), { maxLength: 5 }), pointers),
  ([members, include]) => {
    const unique = [...new Map(members)]
    const draw = (list: typeof unique) =>
      outcomeOf(() => fingerprint({ include: ['', ...include] })({ id: '1', payload: withOwnMembers(list) }))
    const [one, other] = [draw(unique), draw(unique.toReversed())]
    if ('thrown' in one) expectRefusal(one.thrown, 'TXBOX_INVALID_MESSAGE', 'TXBOX_INVALID_OPTION')
    else expect(other).toEqual(one)
  },
)
