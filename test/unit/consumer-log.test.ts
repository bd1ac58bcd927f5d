import { expect, test } from 'vitest'
import { PermanentError, RetryLaterError, type Logger } from '@txbox/consumer'
import { ConsumerUnderTest } from '../support/subjects/consumer-under-test.ts'
import { MemorySource } from '../support/subjects/memory-source.ts'
import { until } from '../support/worlds/until.ts'

function recordingLogger(): { logger: Logger; lines: { level: string; text: string; object: object }[] } {
  const lines: { level: string; text: string; object: object }[] = []
  const at =
    (level: string) =>
    (object: object, text: string): void =>
      void lines.push({ level, text, object })
  return { lines, logger: { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') } }
}

test.each([true, false])(
  'C25 at start one line says whether deliveries are counted: %s',
  async (countsDeliveries) => {
    const { logger, lines } = recordingLogger()
    const subject = await ConsumerUnderTest.started(new MemorySource({ countsDeliveries }), () => undefined, {
      logger,
    })
    await subject.consumer.stop()
    const warnings = lines.filter(({ level }) => level === 'warn').map(({ text }) => text)
    expect(warnings).toEqual(countsDeliveries ? [] : [expect.stringContaining('does not count deliveries')])
  },
)

test('C11 RetryLaterError is no warning; a failure is one, a dead letter an error, and no line has a payload', async () => {
  const { logger, lines } = recordingLogger()
  const source = new MemorySource()
  const errors: Record<string, Error> = {
    later: new RetryLaterError({ retryAfterMs: 60 }),
    fails: new Error('failed'),
    never: new PermanentError('never'),
  }
  for (const id of Object.keys(errors)) source.send(id, { payload: { secret: 'swordfish' } })
  const subject = await ConsumerUnderTest.started(
    source,
    ({ id }, _context, run) => {
      if (run === 1) throw errors[id]!
    },
    { logger, retry: { attempts: 5, delayMs: () => 1 } },
  )
  await until(
    async () => subject.heard('handled').length === 2,
    () => JSON.stringify(lines),
  )
  await subject.consumer.stop()
  const levelOf = (text: RegExp): string[] =>
    lines.filter((line) => text.test(line.text)).map(({ level }) => level)
  expect(levelOf(/Message later is delivered again/)).toEqual(['debug'])
  expect(levelOf(/Message fails is delivered again/)).toEqual(['warn'])
  expect(levelOf(/Message never is a dead letter/)).toEqual(['error'])
  expect(JSON.stringify(lines)).not.toContain('swordfish')
})

test('C25 where only the deliveries show whether the source counts: one line at start, and one warning when it does not', async () => {
  const { logger, lines } = recordingLogger()
  const source = new MemorySource({ countsDeliveries: 'per-delivery' })
  source.showsCounts = false
  for (const id of ['a', 'b']) source.send(id)
  let isFirst = true
  const subject = await ConsumerUnderTest.started(
    source,
    () => {
      if (isFirst) source.cut()
      isFirst = false
    },
    { logger },
  )
  const about = (): string[] =>
    lines.filter(({ text }) => /counts? deliveries/.test(text)).map(({ level, text }) => `${level}: ${text}`)
  expect(about()).toEqual([
    expect.stringMatching(/^info: .*whether memory orders counts deliveries is known when/),
  ])
  await until(
    async () => new Set(subject.heard('handled').map(({ message }) => message.id)).size === 2,
    () => JSON.stringify(lines),
  )
  await subject.consumer.stop()
  expect(about().slice(1)).toEqual([
    expect.stringMatching(/^warn: .*memory orders does not count deliveries, so a message that crashes/),
  ])
})

test.each([true, false])(
  "C25 with the trait 'per-delivery' a delivery beyond attempts is a dead letter only if it is counted: %s",
  async (showsCounts) => {
    const source = new MemorySource({ countsDeliveries: 'per-delivery' })
    source.showsCounts = showsCounts
    source.send('killer', { count: 3 })
    const subject = await ConsumerUnderTest.started(source, () => undefined, {
      retry: { attempts: 3, delayMs: () => 0 },
    })
    await until(
      async () => source.left.length === 0,
      () => 'the message has ended',
    )
    expect(subject.ids).toEqual(showsCounts ? [] : ['killer'])
  },
)

test.each(['at-least-once', 'at-most-once'] as const)(
  'N1 each message that is not handled any more has a line with the class of its error and its first own frame: %s',
  async (delivery) => {
    const { logger, lines } = recordingLogger()
    const source = new MemorySource()
    const ids = Array.from({ length: 20 }, (_, n) => `m${n}`)
    for (const id of ids) source.send(id)
    const subject = await ConsumerUnderTest.started(
      source,
      function placeOrder({ id }) {
        throw new TypeError(`no total of ${id}`)
      },
      { logger, delivery, retry: { attempts: 1, delayMs: () => 1 } },
    )
    const event = delivery === 'at-most-once' ? 'dropped' : 'dead-lettered'
    await until(
      async () => subject.heard(event).length === 20,
      () => JSON.stringify(lines),
    )
    const errors = lines.filter(({ level }) => level === 'error')
    expect(errors.length).toBe(20)
    for (const id of ids) {
      const explanation = new RegExp(
        String.raw`no total of ${id} \(TypeError at placeOrder .*consumer-log\.test\.ts:\d+:\d+\)\)$`,
      )
      expect(errors.filter(({ text }) => explanation.test(text))).toMatchObject([
        { object: { event, id, error: expect.stringMatching(explanation) } },
      ])
    }
  },
)
