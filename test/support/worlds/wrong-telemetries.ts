import type { Observation, SpanDescription, SpanHandle } from '@txbox/core'

type Work = (handle?: unknown) => Promise<unknown>
type Read = () => Promise<readonly Observation[]>

const HOOKS = ['capture', 'span', 'count', 'record', 'observe'] as const
const NEVER = new Promise<never>(() => undefined)
const HANDLE: SpanHandle = { set: () => undefined, failed: () => undefined }

const fail = (): never => {
  throw new Error('a telemetry')
}
/** Whatever is done with it throws. */
const MADE_OF_ERRORS = new Proxy(() => undefined, {
  get: fail,
  apply: fail,
  has: fail,
  getPrototypeOf: fail,
  ownKeys: fail,
  getOwnPropertyDescriptor: fail,
})
const QUIET = {
  capture: () => undefined,
  count: () => undefined,
  record: () => undefined,
  observe: () => () => undefined,
}

function all(hook: (...given: never[]) => unknown): object {
  return Object.fromEntries(HOOKS.map((name) => [name, hook]))
}

interface WrongTelemetry {
  readonly hooks: object
  /** `false`: nobody can see that it is wrong, or it harms nobody. @default true */
  readonly isReported?: boolean
}

/** Telemetries, each of which is wrong in its own way. A new one for each test: each is reported once. */
export const WRONG_TELEMETRIES: Readonly<Record<string, () => WrongTelemetry>> = {
  'throws on every hook': () => ({ hooks: all(fail) }),
  'hangs on every hook': () => ({ hooks: all(() => NEVER) }),
  'rejects on every hook': () => ({ hooks: all(async () => fail()) }),
  'answers nonsense on every hook': () => ({
    hooks: {
      capture: () => ({ traceparent: '00-evil\r\nheader: injected', tracestate: 7 }),
      span: () => 'nonsense',
      count: () => 'nonsense',
      record: () => 'nonsense',
      observe: () => 'nonsense',
    },
  }),
  'answers what throws whatever is done with it': () => ({ hooks: all(() => MADE_OF_ERRORS) }),
  'throws what throws whatever is done with it': () => ({
    hooks: all(() => {
      // oxlint-disable-next-line typescript/only-throw-error -- a telemetry may do so
      throw MADE_OF_ERRORS
    }),
  }),
  'begins the work, and never ends': () => ({
    hooks: {
      ...QUIET,
      span(_: SpanDescription, work: Work) {
        void work(HANDLE).catch(() => undefined)
        return NEVER
      },
    },
    isReported: false,
  }),
  'throws after it has begun the work': () => ({
    hooks: {
      ...QUIET,
      span(_: SpanDescription, work: Work) {
        void work(HANDLE).catch(() => undefined)
        fail()
      },
    },
  }),
  'begins the work twice, with a handle that throws': () => ({
    hooks: {
      ...QUIET,
      async span(_: SpanDescription, work: Work) {
        void work({ set: fail, failed: fail }).catch(() => undefined)
        return work({ set: fail, failed: fail })
      },
    },
  }),
  'begins the work too late': () => ({
    hooks: {
      ...QUIET,
      async span(_: SpanDescription, work: Work) {
        await new Promise((resolve) => void setImmediate(resolve))
        return work(HANDLE)
      },
    },
  }),
  'begins the work again when it has ended, and that of other spans too': () => {
    const works: Work[] = []
    return {
      hooks: {
        ...QUIET,
        async span(_: SpanDescription, work: Work) {
          works.push(work)
          const result = await work(HANDLE)
          for (const each of works) void each(HANDLE).catch(() => undefined)
          return result
        },
      },
    }
  },
  'settles its spans with other results and errors': () => ({
    hooks: {
      ...QUIET,
      async span(_: SpanDescription, work: Work) {
        try {
          await work(HANDLE)
        } catch {
          return { kind: 'nonsense', outcome: 'nonsense', response: { status: 500 } }
        }
        throw new Error('a telemetry')
      },
    },
  }),
  'passes a handle that throws whatever is done with it': () => ({
    hooks: { ...QUIET, span: (_: SpanDescription, work: Work) => work(MADE_OF_ERRORS) },
  }),
  'changes and freezes what it is given': () => {
    const change = (attributes: Record<string, unknown>): void => {
      for (const name of Object.keys(attributes)) delete attributes[name]
      Object.freeze(attributes)
    }
    return {
      hooks: {
        ...QUIET,
        span(span: { attributes: Record<string, unknown>; links?: object[] }, work: Work) {
          change(span.attributes)
          span.links?.splice(0)
          Object.freeze(span)
          return work({ set: change, failed: () => undefined })
        },
        count: (_: string, __: number, attributes: Record<string, unknown>) => change(attributes),
        record: (_: string, __: number, attributes: Record<string, unknown>) => change(attributes),
      },
      isReported: false,
    }
  },
  'reads its gauges while it registers them, reads on after their end, and fails at the end': () => ({
    hooks: {
      ...QUIET,
      span: (_: SpanDescription, work: Work) => work(HANDLE),
      observe(_: string, read: Read) {
        void read()
        const timer = setInterval(() => void read(), 10).unref()
        setTimeout(() => clearInterval(timer), 3000).unref()
        return fail
      },
    },
  }),
}
