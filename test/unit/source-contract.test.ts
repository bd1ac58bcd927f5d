import { AssertionError } from 'node:assert'
import { describe, expect, test } from 'vitest'
import {
  sourceContract,
  type Delivery,
  type OpenSource,
  type Source,
  type SourceContractOptions,
  type SourceTraits,
  type SourceUnderTest,
} from '@txbox/testing'
import { MemorySource } from '../support/subjects/memory-source.ts'

const TRAITS: SourceTraits = {
  ...{ delays: true, countsDeliveries: true, keepsRejected: true, ordersKeys: false },
  settlesInTransaction: false,
  leaseMs: 90,
}
const OPTIONS: SourceContractOptions = {
  traits: TRAITS,
  ...{ competes: false, survivesCut: false, limitMs: 300 },
}

/** What a source gets wrong: a change of what it opens, of its deliveries, or of its queue. */
interface Fault {
  readonly opened?: (opened: OpenSource, source: MemorySource) => Partial<OpenSource>
  readonly delivery?: (delivery: Delivery, source: MemorySource) => Partial<Delivery>
  readonly prepare?: (source: MemorySource) => void
}

/** @returns the delivery with some members changed; the others, which may be getters, are those of the original. */
function changed(delivery: Delivery, change: Partial<Delivery>): Delivery {
  return Object.defineProperties(
    Object.create(delivery) as Delivery,
    Object.getOwnPropertyDescriptors(change),
  )
}

function faulty(source: MemorySource, { opened: change, delivery: changeOf }: Fault): Source {
  return {
    name: source.name,
    traits: source.traits,
    open: async (how) => {
      const opened = await source.open({ ...how, failed: how.failed })
      return {
        receive: async (limit, options) => {
          const deliveries = await opened.receive(limit, options)
          return deliveries.map((each) => changed(each, changeOf?.(each, source) ?? {}))
        },
        close: (options) => opened.close(options),
        ...change?.(opened, source),
      }
    },
  }
}

async function errorOf(rule: string, fault: Fault, options: SourceContractOptions = OPTIONS) {
  const closed: string[] = []
  const cases = sourceContract(options, async () => {
    const source = new MemorySource(options.traits)
    fault.prepare?.(source)
    return {
      source: faulty(source, fault),
      send: async (ids, { key } = {}) => {
        for (const id of ids) source.send(id, key === undefined ? {} : { key })
      },
      network: { cut: () => source.cut() },
      left: async () => source.left.length - source.out,
      rejected: async () => source.rejected.map(({ id }) => id),
      close: () => void closed.push('subject'),
    }
  })
  const error: unknown = await cases
    .find((each) => each.rule === rule)!
    .run()
    .then(
      () => undefined,
      (reason: unknown) => reason,
    )
  expect(closed).toEqual(['subject'])
  return error
}

const nothing = async (): Promise<void> => undefined
const FAULTS: readonly (readonly [string, string, Fault])[] = [
  ['D1', 'accepts nothing', { delivery: () => ({ accept: nothing }) }],
  ['D1', 'counts from 2', { delivery: () => ({ deliveries: 2 }) }],
  ['D3', 'ignores its prefetch', { prepare: (source) => void (source.isGenerous = true) }],
  ['E1', 'settles nothing', { delivery: () => ({ accept: nothing }) }],
  [
    'E2',
    'forgets what is recorded',
    { delivery: (each) => ({ accept: (how) => (how?.recorded === true ? nothing() : each.accept()) }) },
  ],
  [
    'E3',
    'rejects what it has accepted',
    { delivery: (each, source) => ({ reject: async () => void source.rejected.push(each.message) }) },
  ],
  [
    'E4',
    'does not count',
    { delivery: (each) => ({ retry: (how) => each.retry({ ...how, counted: false }) }) },
  ],
  [
    'E5',
    'counts everything',
    { delivery: (each) => ({ retry: (how) => each.retry({ ...how, counted: true }) }) },
  ],
  [
    'E6',
    'forgets the delay',
    { delivery: (each) => ({ retry: (how) => each.retry({ ...how, delayMs: 0 }) }) },
  ],
  ['E7', 'drops what is rejected', { delivery: (each) => ({ reject: () => each.accept() }) }],
  ['E8', 'does not extend leases', { delivery: () => ({ extend: nothing }) }],
  ['E8', 'tells nobody that a lease is over', { delivery: () => ({ lost: new AbortController().signal }) }],
  ['E10', 'loses retries', { delivery: (each) => ({ retry: () => each.accept() }) }],
  ['L1', 'gives nothing back', { opened: () => ({ close: nothing }) }],
  [
    'L1',
    'rejects what is lost',
    { delivery: (each, source) => ({ reject: async () => void source.rejected.push(each.message) }) },
  ],
  ['L2', 'receives for ever', { opened: () => ({ receive: () => new Promise(() => undefined) }) }],
  [
    'L2',
    'rejects what is lost',
    { delivery: (each, source) => ({ reject: async () => void source.rejected.push(each.message) }) },
  ],
  ['L3', 'reports nothing', { prepare: (source) => void (source.cut = () => undefined) }],
  [
    'L5',
    'loses a message',
    { delivery: (each) => (each.message.id === 'm77' ? { accept: nothing, retry: nothing } : {}) },
  ],
]

describe('the contract of sources', () => {
  test.for(FAULTS)('%s finds a source that %s', async ([rule, , fault]) => {
    const leaseMs = rule === 'E8' ? TRAITS.leaseMs : undefined
    const options = { ...OPTIONS, traits: { ...TRAITS, leaseMs } }
    expect(await errorOf(rule, fault, options)).toBeInstanceOf(AssertionError)
  })

  test('E4 and L1 pass the same source without a fault', async () => {
    expect(await errorOf('E4', {})).toBeUndefined()
    expect(await errorOf('L1', {})).toBeUndefined()
  })

  test('T1 finds a source whose traits are others, and D5 a source that delivers two of a key', async () => {
    const ordered = { ...TRAITS, ordersKeys: true }
    const wrong = {
      prepare: (source: MemorySource) => void ((source.traits as { delays: boolean }).delays = false),
    }
    expect(await errorOf('T1', wrong)).toBeInstanceOf(AssertionError)
    const generous = { prepare: (source: MemorySource) => void (source.isGenerous = true) }
    expect(await errorOf('D5', generous, { ...OPTIONS, traits: ordered })).toBeInstanceOf(AssertionError)
  })

  test('a rule about what a source cannot do is no case', () => {
    const rules = (options: SourceContractOptions): string[] =>
      sourceContract(options, () => Promise.reject(new Error('not opened'))).map(({ rule }) => rule)
    const poor = {
      ...{ delays: false, countsDeliveries: false, keepsRejected: false, ordersKeys: false },
      ...{ settlesInTransaction: false, leaseMs: undefined, isExclusive: true },
    }
    const everywhere = ['T1', 'D1', 'D2', 'D3', 'E1', 'E2', 'E3', 'E4', 'E10', 'L1', 'L5', 'L6']
    expect(rules({ traits: poor }).toSorted()).toEqual([...everywhere, 'L2', 'L3'].toSorted())
    const rich = { ...TRAITS, ordersKeys: true, settlesInTransaction: true }
    const all = [...everywhere, 'D4', 'D5', 'E5', 'E6', 'E7', 'E8', 'E9', 'L4'].toSorted()
    expect(rules({ traits: rich }).toSorted()).toEqual(all)
    expect(rules({ traits: rich, countsReturns: true })).not.toContain('E5')
  })

  test.for<[string, string, Partial<SourceUnderTest>, number?]>([
    ['L5', "The subject has no 'network'.", {}],
    ['L6', "The subject has no 'network.down', no 'network.up'.", { network: { cut: () => undefined } }],
    ['E9', "The subject has no 'begin'.", {}],
    [
      'E8',
      "The trait 'leaseMs' is 5001, and 5000 at most lets a case wait for the end of a lease.",
      {},
      5001,
    ],
  ])('%s is left out by name: %s', async ([rule, reason, members, leaseMs = TRAITS.leaseMs]) => {
    const traits = { ...TRAITS, settlesInTransaction: true, leaseMs }
    const source = new MemorySource(traits)
    const closed: string[] = []
    const subject: SourceUnderTest = {
      source: {
        name: source.name,
        traits,
        open: () => Promise.reject(new Error('the case is not left out')),
      },
      send: nothing,
      left: async () => 0,
      close: () => void closed.push('subject'),
      ...members,
    }
    const one = sourceContract({ traits }, async () => subject).find((each) => each.rule === rule)!
    const skipped: string[] = []
    await one.run({ skip: (text) => void skipped.push(text) })
    expect(skipped).toEqual([reason])
    const warned = new Promise<Error>((resolve) => void process.once('warning', resolve))
    await one.run()
    expect((await warned).message).toBe(`Left out: ${one.name}. ${reason}`)
    expect(closed).toEqual(['subject', 'subject'])
  })

  test('a case takes the context of a runner, and needs none', () => {
    const cases = sourceContract({ traits: TRAITS }, () => Promise.reject(new Error('not opened')))
    // Runners that pass a callback pass it to functions with parameters.
    expect(cases.map(({ run }) => run.length)).toEqual(cases.map(() => 0))
  })
})
