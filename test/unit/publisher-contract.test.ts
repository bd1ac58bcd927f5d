import { AssertionError } from 'node:assert'
import { describe, expect, test } from 'vitest'
import {
  publisherContract,
  type ArrivedMessage,
  type OutboxMessage,
  type PublishResult,
  type Publisher,
  type PublisherContractOptions,
  type PublisherUnderTest,
} from '@txbox/testing'

/** What a publisher gets wrong. */
type Fault =
  | 'none'
  | 'accepts too early'
  | 'never accepts'
  | 'refuses after a cut'
  | 'works on when closed'
  | 'publishes when closed'
  | 'cannot be closed'

/** A publisher to an array, and the network between both. */
class MemoryWorld {
  readonly subject: PublisherUnderTest
  readonly closed: string[] = []
  readonly #fault: Fault
  #arrived: ArrivedMessage[] = []
  #cuts = 0
  #isDown = false
  #isClosed = false

  constructor(fault: Fault) {
    this.#fault = fault
    this.subject = {
      publisher: {
        ordering: 'per-key',
        publish: (messages, { signal, answered }) => this.#publish(messages, signal, answered),
        ...(fault !== 'cannot be closed' && { close: async () => this.#close() }),
      },
      goodTopic: 'good',
      badTopic: 'bad',
      network: {
        cut: () => void (this.#cuts += 1),
        down: async () => void (this.#isDown = true),
        up: async () => void (this.#isDown = false),
      },
      arrived: async () => this.#arrived.splice(0),
      refused: { publisher: this.#closing('refused'), secret: 'hidden-word' },
      unresolved: this.#closing('unresolved'),
      close: () => void this.closed.push('subject'),
    }
  }

  #closing(name: string): Publisher {
    return {
      publish: () => Promise.reject(new Error('never')),
      close: async () => {
        this.closed.push(name)
        throw new Error(`${name} cannot be closed`)
      },
    }
  }

  #close(): void {
    this.closed.push('publisher')
    this.#isClosed = true
  }

  async #passable(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    if (!this.#isClosed || this.#fault === 'publishes when closed') return
    if (this.#fault === 'works on when closed') await new Promise(() => undefined)
    throw new Error('closed')
  }

  async #publish(
    messages: readonly OutboxMessage[],
    signal: AbortSignal,
    answered?: (index: number, result: PublishResult) => void,
  ): Promise<PublishResult[]> {
    const cuts = this.#cuts
    const results: PublishResult[] = []
    for (const [index, message] of messages.entries()) {
      await this.#passable(signal)
      const result: PublishResult = { status: 'accepted' }
      if (this.#fault === 'accepts too early') answered?.(index, result)
      // A timer, so that a cut whose timer was set before the call comes first.
      if (index % 50 === 0) await new Promise((resolve) => setTimeout(resolve, 1))
      await this.#passable(signal)
      if (this.#isDown || this.#fault === 'never accepts') throw new Error('away')
      if (this.#cuts > cuts) {
        if (this.#fault !== 'refuses after a cut') throw new Error('cut')
        results.push({ status: 'rejected', retryable: false, error: new Error('cut') })
        continue
      }
      this.#arrived.push({ id: message.id, payload: message.payload })
      results.push(result)
      answered?.(index, result)
    }
    return results
  }
}

/** Runs one case. @returns the world, and the error of the case. */
async function outcomeOf(rule: string, fault: Fault, options: Partial<PublisherContractOptions> = {}) {
  let world = new MemoryWorld(fault)
  const cases = publisherContract(
    { ordering: 'per-key', offers: ['network'], answerTimeoutMs: 50, ...options },
    async () => {
      world = new MemoryWorld(fault)
      return world.subject
    },
  )
  const error: unknown = await cases
    .find((each) => each.rule === rule)!
    .run()
    .then(
      () => undefined,
      (reason: unknown) => reason,
    )
  return { error, closed: world.closed }
}

describe('the contract of publishers', () => {
  const CLOSED = ['refused', 'unresolved', 'subject']

  test.for<[string, Fault, RegExp]>([
    ['O3', 'never accepts', /no message was accepted for/],
    ['O3', 'refuses after a cut', /a cut was taken for a refusal/],
    ['O3', 'accepts too early', /./],
    ['A2', 'never accepts', /no message was accepted, so that/],
    ['A2', 'accepts too early', /./],
    ['S2', 'accepts too early', /./],
    ['S3', 'accepts too early', /./],
    ['S3', 'works on when closed', /did not end in time/],
    ['S3', 'publishes when closed', /had to reject/],
    ['S3', 'cannot be closed', /closes: false/],
  ])('%s finds a publisher that %s, and closes all that was opened', async ([rule, fault, text]) => {
    const { error, closed } = await outcomeOf(rule, fault)
    expect(error).toBeInstanceOf(AssertionError)
    expect((error as AssertionError).message).toMatch(text)
    expect(closed.slice(-3)).toEqual(CLOSED)
  })

  test.for(['O3', 'A2', 'S2', 'S3'])(
    '%s passes a publisher that is right, up to an error of closing',
    async (rule) => {
      const { error, closed } = await outcomeOf(rule, 'none')
      expect(error).toEqual(new Error('refused cannot be closed'))
      expect(closed.slice(-3)).toEqual(CLOSED)
    },
  )

  test('a case that says nothing about a publisher is left out by name', () => {
    const rules = (options: PublisherContractOptions) =>
      publisherContract(options, () => Promise.reject(new Error('not opened'))).map(({ rule }) => rule)
    expect(rules({ ordering: 'per-key' })).toEqual(expect.arrayContaining(['O4', 'S3']))
    expect(rules({ ordering: 'none' })).not.toContain('O4')
    expect(rules({ ordering: 'none', closes: false })).not.toContain('S3')
  })
})
