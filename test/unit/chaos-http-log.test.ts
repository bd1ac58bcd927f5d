import { appendFileSync, mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { HttpLog } from '../../chaos/driver/http-log.ts'
import { HttpWaits } from '../../chaos/driver/http-waits.ts'
import { httpLogOf, type HttpLogEntry } from '../../chaos/workers/http-protocol.ts'
import type { Illness } from '../../chaos/workers/worker-protocol.ts'

let folder: string
let log: HttpLog

beforeEach(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'txbox-http-log-'))
  log = new HttpLog(httpLogOf(folder))
})

afterEach(() => {
  vi.useRealTimers()
  rmSync(folder, { recursive: true })
})

function write(text: string): void {
  appendFileSync(httpLogOf(folder), text)
}

function line(entry: HttpLogEntry): string {
  return `${JSON.stringify(entry)}\n`
}

function sent(call: string, ill?: Illness): string {
  return line({ what: 'sent', call, path: '/orders', key: `request-${call}`, ...(ill && { ill }), atMs: 1 })
}

function answered(call: string, status: number): string {
  return line({ what: 'answered', call, service: 'http-service-1', status, isReplayed: false, atMs: 2 })
}

test('a call is unanswered until its answer is 2xx, and a line counts when it is whole', () => {
  log.read()
  expect(log.calls).toEqual([])
  const last = answered('one', 201)
  write(sent('one') + answered('one', 503) + last.slice(0, 10))
  log.read()
  expect(log.unanswered.map(({ call }) => call)).toEqual(['one'])
  write(last.slice(10) + sent('two'))
  log.read()
  expect(log.unanswered.map(({ call }) => call)).toEqual(['two'])
  expect(log.calls.map(({ answers }) => answers.map(({ status }) => status))).toEqual([[503, 201], []])
})

test('a line that cannot be read fails each time', () => {
  write('{"what":\n')
  expect(() => log.read()).toThrow('JSON')
  expect(() => log.read()).toThrow('JSON')
})

test('a request waits from the first look after everything is well until its answer', () => {
  vi.useFakeTimers()
  const waits = new HttpWaits(log)
  const waiting = (): readonly string[] => waits.standing().map(({ what, ms }) => `${what}: ${ms}`)
  write(sent('one'))
  waits.look()
  vi.advanceTimersByTime(400)
  expect(waiting()).toEqual(['request-one: 400'])
  waits.clear()
  expect(waiting()).toEqual([])
  waits.look()
  vi.advanceTimersByTime(300)
  write(answered('one', 409))
  waits.look()
  expect(waits.standing()).toEqual([
    {
      check: 'http standstill',
      ms: 300,
      what: 'request-one',
      text: 'The request-one has waited for its answer for 300 ms; the last of 1 answers was 409 by http-service-1.',
    },
  ])
  write(answered('one', 201))
  waits.look()
  expect(waiting()).toEqual([])
})

test('a request that was made to fail does not count, and none counts while a request is sent that kills its service', () => {
  vi.useFakeTimers()
  const waits = new HttpWaits(log)
  const waiting = (): readonly string[] => waits.standing().map(({ what }) => what)
  write(sent('healthy') + sent('thrown', 'throw'))
  waits.look()
  expect(waiting()).toEqual(['request-healthy'])
  write(sent('killing', 'kill'))
  waits.look()
  expect(waiting()).toEqual([])
  write(answered('killing', 201))
  waits.look()
  expect(waiting()).toEqual(['request-healthy'])
})
