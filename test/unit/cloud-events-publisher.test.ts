import { describe, expect, test } from 'vitest'
import { cloudEvents } from '@txbox/cloudevents'
import type { Publisher } from '@txbox/core'
import { EventRecorder, KAFKA } from '../support/subjects/event-recorder.ts'
import { outboxMessage, publish, signal, summary } from '../support/subjects/publishing.ts'

describe('the publisher inside', () => {
  test('all of its members are those of the wrapper', async () => {
    const publisher = new EventRecorder(KAFKA)
    const events = cloudEvents({ source: '/orders', publisher }) as Publisher & EventRecorder
    expect(events.ordering).toBe('per-key')
    await events.close()
    expect(events.system).toBe('recorder 1')
    expect(['check' in events, 'close' in events, typeof events.check]).toEqual([false, true, 'undefined'])
    const frozen = Object.freeze({ publish: publisher.publish.bind(publisher) })
    expect(
      summary(
        await publish(cloudEvents({ source: '/a', publisher: frozen }), [outboxMessage({ topic: 'a' })]),
      ),
    ).toEqual(['accepted'])
  })

  test('results and early answers belong to their messages, and a refused message stops its key only', async () => {
    const publisher = new EventRecorder(KAFKA)
    const message = (type: string, key: string, id = `${type} ${key}`) =>
      outboxMessage({ topic: 'a', type, key, id })
    const messages = [
      message('\0', 'a'),
      message('ok', 'a'),
      message('ok', 'b'),
      message('refused', 'c'),
      message('\0', 'c'),
      message('ok', 'd'),
      message('\0', 'd'),
      message('ok', 'd', 'last'),
    ]
    const early = new Map<number, string>()
    const results = await cloudEvents({ source: '/a', publisher }).publish(messages, {
      signal: signal(),
      answered: (index, { status }) => void early.set(index, status),
    })
    expect(summary(results)).toEqual([
      ...['rejected for good', 'skipped', 'accepted', 'rejected for now', 'skipped'],
      ...['accepted', 'rejected for good', 'skipped'],
    ])
    expect([...early]).toEqual([
      [2, 'accepted'],
      [3, 'rejected'],
      [5, 'accepted'],
    ])
    expect(publisher.sent.map(({ id }) => id)).toEqual(['ok b', 'refused c', 'ok d'])
  })

  test('a call that is aborted, or whose messages are no events, does not reach it', async () => {
    const publisher = new EventRecorder(KAFKA)
    const events = cloudEvents({ source: '/a', publisher })
    await expect(events.publish([], { signal: AbortSignal.abort(new Error('stop')) })).rejects.toThrow('stop')
    await publish(events, [outboxMessage({ topic: 'a', id: '' })])
    expect(publisher.sent).toEqual([])
  })
})

const PUBLISHER = new EventRecorder(KAFKA)
test.for<[string, () => unknown]>([
  ['no publisher', () => cloudEvents({ source: '/a' } as never)],
  ['no source', () => cloudEvents({ publisher: PUBLISHER } as never)],
  ['an empty source', () => cloudEvents({ publisher: PUBLISHER, source: '' })],
  ['a source with a blank', () => cloudEvents({ publisher: PUBLISHER, source: 'a b' })],
  ['a source that is too long', () => cloudEvents({ publisher: PUBLISHER, source: 'a'.repeat(2049) })],
  ['an unknown mode', () => cloudEvents({ publisher: PUBLISHER, source: '/a', mode: 'batch' as never })],
  [
    'binary mode without a binding',
    () => cloudEvents({ publisher: new EventRecorder(), source: '/a', mode: 'binary' }),
  ],
  [
    'an extension with a hyphen',
    () => cloudEvents({ publisher: PUBLISHER, source: '/a', extensions: ['a-b'] }),
  ],
  [
    'an extension that is an attribute',
    () => cloudEvents({ publisher: PUBLISHER, source: '/a', extensions: ['id'] }),
  ],
  [
    'a subject that is text',
    () => cloudEvents({ publisher: PUBLISHER, source: '/a', subject: 'a' as never }),
  ],
  ['an unknown option', () => cloudEvents({ publisher: PUBLISHER, source: '/a', type: 'a' } as never)],
  [
    'a publisher of events',
    () => cloudEvents({ publisher: cloudEvents({ publisher: PUBLISHER, source: '/a' }), source: '/a' }),
  ],
])('%s is an InvalidOptionError', ([, make]) => {
  expect(make).toThrow(expect.objectContaining({ code: 'TXBOX_INVALID_OPTION' }))
})
