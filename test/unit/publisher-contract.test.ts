import { AssertionError } from 'node:assert'
import net from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import {
  publisherContract,
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
  | 'sends again by itself'
  | 'sends what it kept with its next call'
  | 'leaves a timer'
  | 'leaves a connection'
  | 'keeps payloads'
  | 'keeps listeners'
  | 'shows the password'
  | 'says nothing'
  | 'takes any password'
  | 'is read without its type'
  | 'is read with another time'
  | 'is read as text'

const SECRET = 'hidden-word'

function closing(timer: NodeJS.Timeout): () => void {
  return () => clearInterval(timer)
}

/** A publisher to an array, and the network between both. */
class MemoryWorld {
  readonly subject: PublisherUnderTest
  readonly closed: string[] = []
  readonly #fault: Fault
  readonly #kept: OutboxMessage[] = []
  #arrived: OutboxMessage[] = []
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
      received: async () => this.#arrived.splice(0).map((message) => this.#read(message)),
      refused: { publisher: this.#closing('refused'), secret: SECRET },
      secret: SECRET,
      unresolved: this.#closing('unresolved'),
      close: () => void this.closed.push('subject'),
    }
  }

  #closing(name: string): Publisher {
    return {
      publish: async (messages) => {
        if (this.#fault === 'takes any password') return messages.map(() => ({ status: 'accepted' }))
        throw this.#error('The login was refused.')
      },
      close: async () => {
        this.closed.push(name)
        throw new Error(`${name} cannot be closed`)
      },
    }
  }

  #error(text: string): Error {
    if (this.#fault === 'says nothing') return Object.assign(new Error('no'), { retryable: true })
    const settings = this.#fault === 'shows the password' ? { password: SECRET } : {}
    return Object.assign(new Error(text, { cause: { settings } }), { retryable: true })
  }

  #read(message: OutboxMessage) {
    const { id, type, correlationId, createdAt, headers, payload, contentType } = message
    const isBytes = contentType === 'application/octet-stream'
    const isText = contentType.startsWith('text/') || this.#fault === 'is read as text'
    return {
      ...{ id, correlationId, headers },
      type: this.#fault === 'is read without its type' ? undefined : type,
      time: this.#fault === 'is read with another time' ? new Date() : createdAt,
      payload: isBytes ? payload : isText ? message.text() : message.json(),
    }
  }

  /** Keeps messages over an outage to send them later, as some clients do. */
  #keep(messages: readonly OutboxMessage[]): void {
    this.#kept.push(...messages)
    if (this.#fault !== 'sends again by itself') return
    const again = setInterval(() => {
      if (this.#isDown) return
      this.#arrived.push(...this.#kept.splice(0))
      clearInterval(again)
    }, 1000)
  }

  #spoil(signal: AbortSignal): void {
    if (this.#fault === 'leaves a timer') onTestFinished(closing(setInterval(() => undefined, 60_000)))
    if (this.#fault === 'keeps listeners') signal.addEventListener('abort', () => undefined)
    if (this.#fault === 'leaves a connection') {
      const server = net.createServer().listen(0, '127.0.0.1')
      onTestFinished(() => void server.close())
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
    this.#spoil(signal)
    if (this.#fault === 'sends what it kept with its next call') this.#arrived.push(...this.#kept.splice(0))
    const results: PublishResult[] = []
    for (const [index, message] of messages.entries()) {
      await this.#passable(signal)
      const result: PublishResult = { status: 'accepted' }
      if (this.#fault === 'accepts too early') answered?.(index, result)
      // A timer, so that a cut whose timer was set before the call comes first.
      if (index % 50 === 0) await new Promise((resolve) => setTimeout(resolve, 1))
      await this.#passable(signal)
      if (message.topic === 'bad') {
        results.push({ status: 'rejected', retryable: true, error: this.#error('There is no such topic.') })
        continue
      }
      if (this.#isDown || this.#fault === 'never accepts') {
        if (this.#fault.startsWith('sends')) this.#keep(messages)
        throw this.#error('The broker is away.')
      }
      if (this.#cuts > cuts) {
        if (this.#fault !== 'refuses after a cut') throw new Error('cut')
        results.push({ status: 'rejected', retryable: false, error: new Error('cut') })
        continue
      }
      this.#arrived.push(message)
      if (this.#fault === 'keeps payloads') this.#kept.push(message)
      results.push(result)
      answered?.(index, result)
    }
    return results
  }
}

/** Runs one case. @returns the world, and the error of the case. */
async function outcomeOf(rule: string, fault: Fault, options: Partial<PublisherContractOptions> = {}) {
  let world = new MemoryWorld(fault)
  const cases = publisherContract({ ordering: 'per-key', answerTimeoutMs: 50, ...options }, async () => {
    world = new MemoryWorld(fault)
    return world.subject
  })
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
    ['A4', 'takes any password', /had to reject/],
    ['A4', 'shows the password', /the password is shown/],
    ['A4', 'says nothing', /the reason is missing/],
    ['A6', 'sends again by itself', /sent after their call had ended/],
    ['A6', 'sends what it kept with its next call', /sent after their call had ended/],
    ['A7', 'leaves a timer', /resources, after/],
    ['A7', 'keeps listeners', /listeners of the signal, after/],
    ['F6', 'is read without its type', /type/],
    ['F6', 'is read with another time', /the time/],
    ['F6', 'is read as text', /the payload of application\/json/],
    ['S4', 'leaves a timer', /these keep the process alive[^]*Timeout/],
    ['S4', 'leaves a connection', /these keep the process alive[^]*TCPServerWrap/],
    ['S5', 'keeps payloads', /bytes are left/],
    ['V5', 'shows the password', /the password is shown/],
    ['V5', 'says nothing', /the reason is missing/],
  ])('%s finds a publisher that %s, and closes all that was opened', async ([rule, fault, text]) => {
    const { error, closed } = await outcomeOf(rule, fault)
    expect(error).toBeInstanceOf(AssertionError)
    expect((error as AssertionError).message).toMatch(text)
    expect(closed.slice(-3)).toEqual(CLOSED)
  })

  test.for(['O3', 'A2', 'A4', 'A6', 'A7', 'F6', 'S2', 'S3', 'S4', 'S5', 'V5'])(
    '%s passes a publisher that is right, up to an error of closing',
    async (rule) => {
      const { error, closed } = await outcomeOf(rule, 'none')
      expect(error).toEqual(new Error('refused cannot be closed'))
      expect(closed.slice(-3)).toEqual(CLOSED)
    },
  )

  test('O4 is left out for a publisher without an order', () => {
    const rules = (ordering: 'none' | 'per-key') =>
      publisherContract({ ordering }, () => Promise.reject(new Error('not opened'))).map(({ rule }) => rule)
    expect(rules('per-key')).toContain('O4')
    expect(rules('none')).not.toContain('O4')
  })

  test.for(['S3', 'V4'])(
    '%s is left out by name, if the subject has nothing that the rule is about',
    async (rule) => {
      const world = new MemoryWorld('cannot be closed')
      const { refused: _, unresolved: __, ...subject } = world.subject
      const one = publisherContract({ ordering: 'per-key' }, async () => subject).find(
        (each) => each.rule === rule,
      )!
      const skipped: string[] = []
      await one.run({ skip: (reason) => void skipped.push(reason) })
      expect(skipped).toEqual([expect.stringMatching(/^The subject has no '(publisher.close|full)'.$/)])
      const warned = new Promise<Error>((resolve) => void process.once('warning', resolve))
      await one.run()
      expect((await warned).message).toMatch(`Left out: ${one.name}. ${skipped[0]}`)
      expect(world.closed).toEqual(['subject', 'subject'])
    },
  )

  test('U1 finds options that are refused after something was opened', async () => {
    const timers: NodeJS.Timeout[] = []
    const wrongOptions = {
      'an unknown option': () => {
        timers.push(setInterval(() => undefined, 60_000))
        throw Object.assign(new Error('wrong'), { code: 'TXBOX_INVALID_OPTION' })
      },
    }
    const { error } = await outcomeOf('U1', 'none', { wrongOptions })
    for (const timer of timers) clearInterval(timer)
    expect((error as Error).message).toMatch(/have opened something/)
  })

  test('a case takes the context of a runner, and needs none', () => {
    const cases = publisherContract({ ordering: 'per-key' }, () => Promise.reject(new Error('not opened')))
    // Runners that pass a callback pass it to functions with parameters.
    expect(cases.map(({ run }) => run.length)).toEqual(cases.map(() => 0))
  })
})
