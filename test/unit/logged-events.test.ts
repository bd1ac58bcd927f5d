import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { InvalidOptionError, consoleLogger } from '@txbox/core'
import { OptionChecker, loggedEvents, loggerOption, type LogLines } from '@txbox/core/internal'
import { until } from '../support/worlds/until.ts'

interface Events {
  trouble: { n: number }
  news: { n: number }
  error: { error: unknown }
}

const lines: LogLines<Events> = {
  trouble: ({ n }) => ({
    level: 'warn',
    object: { n },
    text: `Trouble ${n}.`,
    kind: 'trouble',
    failure: true,
  }),
  news: ({ n }) => ({ level: 'debug', object: { n }, text: `News ${n}.` }),
  error: ({ error }) => ({ level: 'error', object: {}, text: `Error ${String(error)}.`, failure: true }),
}

type Said = [level: string, object: object, text: string]

function recorder(): { readonly said: Said[]; readonly logger: Parameters<typeof loggedEvents>[0] } {
  const said: Said[] = []
  const at =
    (level: string) =>
    (object: object, text: string): void =>
      void said.push([level, object, text])
  return { said, logger: { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') } }
}

/** The object of a line that stands for several events. */
function counted(n: number, times: number): object {
  return { n, times, firstAt: expect.any(Date), lastAt: expect.any(Date) }
}

function countOf(times: number): RegExp {
  return new RegExp(`^Trouble \\d\\. \\(${times} times, from 20\\d\\d-\\S+Z to 20\\d\\d-\\S+Z\\)$`)
}

/** The warnings of the process while a test runs. */
function warnings(): { readonly code: unknown; readonly message: string; readonly name: string }[] {
  const caught: { code: unknown; message: string; name: string }[] = []
  const listener = (warning: Error): void => {
    caught.push({ code: Reflect.get(warning, 'code'), message: warning.message, name: warning.name })
  }
  process.on('warning', listener)
  onTestFinished(() => void process.off('warning', listener))
  return caught
}

async function nextTurn(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve))
}

describe('N1 with a logger', () => {
  test('each event is a line, in pino’s argument order', () => {
    const { said, logger } = recorder()
    const { events } = loggedEvents(logger, lines)
    events.emit('news', { n: 1 })
    events.emit('trouble', { n: 2 })
    expect(said).toEqual([
      ['debug', { n: 1 }, 'News 1.'],
      ['warn', { n: 2 }, 'Trouble 2.'],
    ])
  })

  test('start and stop are each a line once, and the counts of repeated lines come before the stop', () => {
    const { said, logger } = recorder()
    const { events, started, stopped } = loggedEvents(logger, lines)
    stopped('Stopped.')
    started('Started.', { name: 'a' })
    started('Started.', { name: 'a' })
    for (const n of [1, 2]) events.emit('trouble', { n })
    stopped('Stopped.')
    stopped('Stopped.')
    started('Started again.')
    expect(said).toEqual([
      ['info', { event: 'started', name: 'a' }, 'Started.'],
      ['warn', { n: 1 }, 'Trouble 1.'],
      ['warn', { n: 2 }, 'Trouble 2.'],
      ['info', { event: 'stopped' }, 'Stopped.'],
      ['info', { event: 'started' }, 'Started again.'],
    ])
  })

  test('a lasting failure is logged at once and then at intervals, with a count', async () => {
    const { said, logger } = recorder()
    const { events, end } = loggedEvents(logger, lines, { repeatAfterMs: 50 })
    for (let n = 1; n <= 5; n++) events.emit('trouble', { n })
    expect(said).toEqual([['warn', { n: 1 }, 'Trouble 1.']])
    await until(
      async () => said.length === 2,
      () => `a line with the count: ${JSON.stringify(said)}`,
    )
    expect(said[1]).toEqual(['warn', counted(5, 4), expect.stringMatching(countOf(4))])
    events.emit('trouble', { n: 6 })
    events.emit('trouble', { n: 7 })
    end()
    expect(said[2]).toEqual(['warn', counted(7, 2), expect.stringMatching(countOf(2))])
    events.emit('trouble', { n: 8 })
    expect(said[3]).toEqual(['warn', { n: 8 }, 'Trouble 8.'])
    end()
  })

  test('a count shows when its events happened, and is written before any later line', () => {
    const { said, logger } = recorder()
    const kinds: LogLines<Events> = {
      trouble: ({ n }) => ({ level: 'warn', object: { n }, text: `Trouble ${n}.`, kind: `kind ${n % 10}` }),
      news: ({ n }) => ({ level: 'debug', object: { n }, text: `News ${n}.` }),
      error: ({ error }) => ({ level: 'error', object: {}, text: `Error ${String(error)}.` }),
    }
    const { events, stopped, started } = loggedEvents(logger, kinds)
    started('Started.')
    const before = Date.now()
    for (const n of [1, 11, 11, 2, 12, 21]) events.emit('trouble', { n })
    // A debug line may be written for each message: it does not bring counts forward.
    events.emit('news', { n: 5 })
    events.emit('error', { error: 'x' })
    events.emit('trouble', { n: 22 })
    stopped('Stopped.')
    expect(said.map(([, , text]) => text.replace(/ \(.*\)/, '+'))).toEqual([
      'Started.',
      'Trouble 1.',
      'Trouble 11.+',
      'Trouble 2.',
      'News 5.',
      'Trouble 12.',
      'Trouble 21.',
      'Error x.',
      'Trouble 22.',
      'Stopped.',
    ])
    const { firstAt, lastAt } = said[2]![1] as { firstAt: Date; lastAt: Date }
    for (const at of [firstAt, lastAt]) {
      expect(at.getTime()).toBeGreaterThanOrEqual(before)
      expect(at.getTime()).toBeLessThanOrEqual(Date.now())
    }
  })

  test('a logger that throws, and a logger without debug, cause no failure', () => {
    const fail = (): never => {
      throw new Error('full disk')
    }
    const { events, end } = loggedEvents({ warn: fail, error: fail }, lines)
    events.emit('trouble', { n: 1 })
    events.emit('news', { n: 1 })
    events.emit('error', { error: 'x' })
    end()
  })

  test('consoleLogger writes the time, the level and the sentences', () => {
    const time = String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`
    for (const level of ['info', 'warn', 'error'] as const) {
      const write = vi.spyOn(console, level).mockImplementation(() => undefined)
      onTestFinished(() => write.mockRestore())
      consoleLogger()[level]?.({ n: 1 }, 'Trouble 1.')
      expect(write.mock.calls).toEqual([
        [expect.stringMatching(new RegExp(`^${time} ${level.padEnd(5)} Trouble 1\\.$`))],
      ])
    }
  })
})

describe('N1 without a logger', () => {
  test('the first failure of each kind without a listener is a process warning', async () => {
    const caught = warnings()
    const { events } = loggedEvents(undefined, lines)
    const heard: unknown[] = []
    const forget = events.on('error', (event) => void heard.push(event))
    events.emit('trouble', { n: 1 })
    events.emit('trouble', { n: 2 })
    events.emit('news', { n: 3 })
    events.emit('error', { error: 'heard' })
    await nextTurn()
    expect(caught).toEqual([
      {
        code: 'TXBOX_UNHEARD_TROUBLE',
        name: 'TxboxWarning',
        message:
          "Trouble 1. The event 'trouble' has no listener: add one, or pass the option 'logger', such as consoleLogger().",
      },
    ])
    expect(heard.length).toBe(1)
    forget()
    events.emit('error', { error: 'unheard' })
    await nextTurn()
    expect(caught.map(({ code }) => code)).toEqual(['TXBOX_UNHEARD_TROUBLE', 'TXBOX_UNHEARD_ERROR'])
  })

  test('logger: false turns off logs and warnings', async () => {
    const caught = warnings()
    const { events } = loggedEvents(false, lines)
    events.emit('trouble', { n: 1 })
    await nextTurn()
    expect(caught).toEqual([])
  })
})

test('an invalid logger is refused by name', () => {
  const given: unknown[] = [
    null,
    {},
    'console',
    { warn: () => {} },
    { warn: () => {}, error: () => {}, info: 1 },
  ]
  for (const logger of given) {
    const check = new OptionChecker('createRelay', { logger })
    expect(() => loggerOption(check, logger as never)).toThrow(InvalidOptionError)
  }
})

test('control and bidi characters are visible in all texts of an object, and nothing else is changed', () => {
  const { said, logger } = recorder()
  interface Named {
    named: { id: string; keys: readonly string[] }
    error: { error: unknown }
  }
  const hostile = 'a\r\nWARN forged\u001b[2J\u202eb\u2066\u0085\u0000'
  const shown = 'a\\u000d\\u000aWARN forged\\u001b[2J\\u202eb\\u2066\\u0085\\u0000'
  const { events, started } = loggedEvents<Named>(logger, {
    named: ({ id, keys }) => ({
      level: 'warn',
      object: { id, keys, more: { id }, n: 1, absent: undefined, none: null, at: new Date(0) },
      text: 'Named.',
    }),
  })
  started('Started.', { owner: hostile })
  events.emit('named', { id: hostile, keys: [hostile, 'ü 👋 \\u202e'] })
  expect(said).toEqual([
    ['info', { event: 'started', owner: shown }, 'Started.'],
    [
      'warn',
      {
        id: shown,
        keys: [shown, 'ü 👋 \\u202e'],
        more: { id: shown },
        n: 1,
        absent: undefined,
        none: null,
        at: new Date(0),
      },
      'Named.',
    ],
  ])
})
