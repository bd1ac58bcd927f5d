import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { expect, test, vi } from 'vitest'
import { diagnose, diagnosed } from '@txbox/core/internal'

test('without subscribers, the event of a channel is not made', () => {
  const make = vi.fn(() => ({ retryInMs: 1, reason: 'gone' }))
  diagnose('unavailable', make)
  expect(make).not.toHaveBeenCalled()
  const told: unknown[] = []
  const listener = (event: unknown): void => void told.push(event)
  subscribe('txbox:unavailable', listener)
  diagnose('unavailable', make)
  unsubscribe('txbox:unavailable', listener)
  diagnose('unavailable', make)
  expect(told).toEqual([{ retryInMs: 1, reason: 'gone' }])
})

test('of a message, a channel shows nothing but its id, topic and type', () => {
  const message = { id: 'm', topic: 't', type: undefined, payload: 'p', headers: { h: 'v' }, key: 'k' }
  expect(diagnosed(message)).toEqual({ id: 'm', topic: 't' })
})
