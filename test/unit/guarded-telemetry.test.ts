import { afterEach, expect, onTestFinished, test, vi } from 'vitest'
import { InvalidOptionError, telemetryKey, type SpanHandle, type Telemetry } from '@txbox/core'
import { GuardedTelemetry, OptionChecker, registeredTelemetry, telemetryOption } from '@txbox/core/internal'
import { StubTelemetry, someContext } from '../support/subjects/stub-telemetry.ts'
import { warningsOf } from '../support/worlds/warnings.ts'

const SPAN = { name: 'send orders', kind: 'client', attributes: {} } as const
const HOOKS = ['capture', 'span', 'count', 'record', 'observe'] as const
const NEVER = new Promise<never>(() => undefined)
const MADE_OF_ERRORS = new Proxy(
  {},
  {
    get() {
      throw new Error('a property')
    },
  },
)

const register = (telemetry: unknown): void => void Object.assign(globalThis, { [telemetryKey]: telemetry })

afterEach(() => register(undefined))

/** A turn of the event loop, after which warnings have arrived. */
const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve))

/** Uses all hooks, as txbox does. */
async function useAll(telemetry: Telemetry): Promise<unknown> {
  const captured = telemetry.capture()
  telemetry.count('txbox.relay.messages', 1, {})
  telemetry.record('txbox.relay.latency', 1, {})
  telemetry.observe('txbox.oldest_due.age', async () => [])()
  let calls = 0
  const answer = await telemetry.span(SPAN, async (tell) => {
    calls++
    tell.set({ a: 1 })
    tell.failed(new Error('told'))
    return 'answer'
  })
  const failure = new Error('of the work')
  const thrown = await telemetry
    .span(SPAN, async () => {
      calls++
      throw failure
    })
    .catch((error: unknown) => error)
  return { captured, answer, isThrown: thrown === failure, calls }
}

/** A telemetry of which one hook, or all, do something else. */
function altered(hooks: readonly string[], hook: (...args: never[]) => unknown): Telemetry {
  const stub = new StubTelemetry()
  return Object.assign(stub, Object.fromEntries(hooks.map((name) => [name, hook])))
}

type Work = (tell?: unknown) => Promise<unknown>
const WRONG: Readonly<Record<string, (...args: never[]) => unknown>> = {
  throws: () => {
    throw new Error('a telemetry')
  },
  'throws nothing': () => {
    // oxlint-disable-next-line typescript/only-throw-error -- a telemetry may do so
    throw undefined
  },
  rejects: async () => {
    throw new Error('a telemetry')
  },
  hangs: () => NEVER,
  'answers nonsense': () => 'nonsense',
  'answers a number': () => 7,
  'answers an object whose properties throw': () => MADE_OF_ERRORS,
  'answers a rejecting thenable': () => ({
    then(_: unknown, reject: (error: unknown) => void) {
      reject(new Error('a telemetry'))
    },
  }),
}

for (const [does, hook] of Object.entries(WRONG)) {
  for (const hooks of [HOOKS, ...HOOKS.map((name) => [name])]) {
    test(`a telemetry whose ${hooks.join(', ')} ${does} disturbs nothing, and is told of once`, async () => {
      const warnings = warningsOf('TXBOX_TELEMETRY')
      const guarded = new GuardedTelemetry(altered(hooks, hook))
      expect(await useAll(guarded)).toEqual({
        captured: undefined,
        answer: 'answer',
        isThrown: true,
        calls: 2,
      })
      expect((await useAll(guarded)) as object).toMatchObject({ answer: 'answer', calls: 2 })
      await turn()
      // What a counter answers is of no interest, unless it is a promise that rejects.
      const isSilent =
        hooks.length === 1 && /count|record/.test(hooks[0]!) && /hangs|answers (?!a rej)/.test(does)
      expect(warnings.length).toBe(isSilent ? 0 : 1)
    })
  }
}

const WRONG_SPANS: Readonly<Record<string, (span: unknown, work: Work) => unknown>> = {
  'throws after its work has begun': (_, work) => {
    void work({ set() {}, failed() {} }).catch(() => undefined)
    throw new Error('a telemetry')
  },
  'begins its work twice': async (_, work) => {
    const running = work({ set() {}, failed() {} })
    void work({ set() {}, failed() {} })
    return running
  },
  'begins its work later': async (_, work) => {
    await turn()
    return work({ set() {}, failed() {} })
  },
  'passes no handle': (_, work) => work(null),
  'passes a handle that throws': (_, work) =>
    work({
      set() {
        throw new Error('a handle')
      },
      failed() {
        throw new Error('a handle')
      },
    }),
  'passes a handle that rejects': (_, work) =>
    work({
      async set() {
        throw new Error('a handle')
      },
      async failed() {
        throw new Error('a handle')
      },
    }),
  'throws another error than its work': async (_, work) => {
    try {
      await work({ set() {}, failed() {} })
    } catch {
      throw new Error('a telemetry')
    }
    throw new Error('a telemetry')
  },
}

for (const [does, span] of Object.entries(WRONG_SPANS)) {
  test(`a telemetry whose span ${does} disturbs nothing, and is told of once`, async () => {
    const warnings = warningsOf('TXBOX_TELEMETRY')
    const guarded = new GuardedTelemetry(altered(['span'], span))
    expect(await useAll(guarded)).toMatchObject({ answer: 'answer', isThrown: true, calls: 2 })
    expect(await useAll(guarded)).toMatchObject({ answer: 'answer', isThrown: true, calls: 2 })
    await turn()
    await turn()
    expect(warnings.length).toBe(1)
  })
}

test('a span whose promise never settles does not hold up its work, and is reported once', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const warnings = warningsOf('TXBOX_TELEMETRY')
  const guarded = new GuardedTelemetry(
    altered(['span'], (_: unknown, work: Work) => {
      void work({ set() {}, failed() {} }).catch(() => undefined)
      return NEVER
    }),
  )
  expect(await useAll(guarded)).toMatchObject({ answer: 'answer', isThrown: true, calls: 2 })
  await turn()
  expect(warnings).toEqual([])
  for (let n = 0; n < 3; n++) {
    vi.advanceTimersByTime(10_000)
    await useAll(guarded)
    await turn()
  }
  expect(warnings).toHaveLength(1)
  expect(warnings[0]).toContain("The telemetry's span has not settled 10 s after its work.")
})

test('a span that settles soon after its work, with a promise of its own, is no mistake', async () => {
  const warnings = warningsOf('TXBOX_TELEMETRY')
  vi.useFakeTimers({ toFake: ['setTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const guarded = new GuardedTelemetry(
    altered(['span'], async (_: unknown, work: Work) => {
      const answer = await work({ set() {}, failed() {} })
      await turn()
      return answer
    }),
  )
  await useAll(guarded)
  await turn()
  await turn()
  vi.advanceTimersByTime(10_000)
  await turn()
  expect(warnings).toEqual([])
})

test('a telemetry that works is told everything, and nothing is told of it', async () => {
  const warnings = warningsOf('TXBOX_TELEMETRY')
  const context = someContext('a=1')
  const stub = new StubTelemetry(context)
  expect(await useAll(new GuardedTelemetry(stub))).toMatchObject({ captured: context, calls: 2 })
  expect(stub.spans).toMatchObject([
    { ...SPAN, set: { a: 1 }, errors: [{ message: 'told' }], ended: true },
    { ...SPAN, ended: true },
  ])
  await turn()
  expect(warnings).toEqual([])
})

test.each([
  ['an invalid traceparent', { traceparent: '00-1-2-3' }, undefined],
  ['an invalid tracestate', { ...someContext(), tracestate: '\n' }, 'only the traceparent'],
])('a captured context with %s is not stored', async (_, context, left) => {
  const warnings = warningsOf('TXBOX_TELEMETRY')
  const guarded = new GuardedTelemetry(new StubTelemetry(context))
  expect(guarded.capture()).toEqual(left === undefined ? undefined : { traceparent: context.traceparent })
  await turn()
  expect(warnings.length).toBe(1)
})

test('without the option the registered telemetry is looked up at each use', () => {
  const find = telemetryOption(new OptionChecker('createOutbox', {}), undefined)
  expect(find()).toBeUndefined()
  const [one, other] = [new StubTelemetry(someContext()), new StubTelemetry(someContext())]
  register(one)
  expect(find()?.capture()).toEqual(one.context)
  expect(find()).toBe(registeredTelemetry())
  register(other)
  expect(find()?.capture()).toEqual(other.context)
  register(undefined)
  expect(find()).toBeUndefined()
})

test('the option takes precedence over the registered telemetry', () => {
  register(new StubTelemetry(someContext()))
  const own = new StubTelemetry(someContext())
  const find = telemetryOption(new OptionChecker('createOutbox', { telemetry: own }), own)
  expect(find()?.capture()).toEqual(own.context)
})

for (const [what, telemetry] of Object.entries({
  'a number': 7,
  'an empty object': {},
  null: null,
  'one without capture': { span() {}, count() {}, record() {}, observe() {} },
  'an object whose properties throw': MADE_OF_ERRORS,
})) {
  test(`the option refuses ${what}`, () => {
    const check = new OptionChecker('createOutbox', { telemetry })
    const use = (): unknown => telemetryOption(check, telemetry as never)
    expect(use).toThrow(InvalidOptionError)
    expect(use).toThrow(/createOutbox: the option 'telemetry' must be a Telemetry/)
  })
}

test('a registered value that is no telemetry is ignored, and told of once', async () => {
  const warnings = warningsOf('TXBOX_TELEMETRY')
  register({ span: () => undefined })
  expect(registeredTelemetry()).toBeUndefined()
  expect(registeredTelemetry()).toBeUndefined()
  await turn()
  expect(warnings).toEqual([expect.stringContaining('is no Telemetry')])
})

test('a handle may be kept beyond the end of its work', async () => {
  const guarded = new GuardedTelemetry(new StubTelemetry())
  let kept: SpanHandle | undefined
  await guarded.span(SPAN, async (tell) => void (kept = tell))
  expect(() => kept!.set({ a: 1 })).not.toThrow()
})
