import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, request, type IncomingMessage, type Server } from 'node:http'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { HttpLog } from '../../chaos/driver/http-log.ts'
import type { WorkerProcess } from '../../chaos/driver/worker-process.ts'
import { HTTP_SERVICES, ORDERS, PAYMENTS, httpLogOf, socketOf } from '../../chaos/workers/http-protocol.ts'
import type { WorkerKind } from '../../chaos/workers/worker-protocol.ts'
import { workerWithoutDatabase } from '../support/subjects/worker-without-database.ts'

let folder: string
let servers: readonly Server[] = []
let started: WorkerProcess | undefined

beforeEach(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'txbox-http-'))
})

afterEach(async () => {
  started?.signal('SIGKILL')
  await started?.ended
  for (const server of servers) server.close()
  rmSync(folder, { recursive: true })
})

/** Starts a worker whose database refuses connections. */
async function startWorker(kind: WorkerKind, slot: string): Promise<WorkerProcess> {
  const ready = Promise.withResolvers<void>()
  started = workerWithoutDatabase(
    folder,
    { kind, slot },
    { ready: () => ready.resolve(), report: () => undefined, exit: () => ready.reject(new Error('ended')) },
  )
  await ready.promise
  return started
}

test('the client sends each request until it is answered, some of them again, and ends when all are answered', async () => {
  const attempts = new Map<string, number>()
  servers = HTTP_SERVICES.map((service) =>
    createServer(({ headers, socket }, response) => {
      const key = String(headers['idempotency-key'])
      const attempt = (attempts.get(key) ?? 0) + 1
      attempts.set(key, attempt)
      if (attempt === 1) socket.destroy()
      else if (attempt === 2) response.writeHead(503).end()
      else response.writeHead(201).end(JSON.stringify({ id: `response to ${key}` }))
    }).listen(socketOf(folder, service)),
  )
  const client = await startWorker('http-client', 'http-client-1')
  const log = new HttpLog(httpLogOf(folder))
  const keysAgain = (): readonly string[] => {
    const keys = log.calls.map(({ key }) => key)
    return keys.filter((key, at) => keys.indexOf(key) !== at)
  }
  while (keysAgain().length === 0) {
    await pause(20)
    log.read()
  }
  expect(await client.stop(30_000)).toBe(true)
  log.read()
  expect(log.unanswered).toEqual([])
  for (const { key, path: sent, answers } of log.calls) {
    expect([ORDERS, PAYMENTS]).toContain(sent)
    expect(answers.at(-1)).toMatchObject({ status: 201, id: `response to ${key}` })
    expect(answers.slice(0, -1).every(({ status }) => status === 503)).toBe(true)
  }
}, 60_000)

test('the service answers 503 without its database, and ends when it is asked to', async () => {
  const service = await startWorker('http-service', 'http-service-1')
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const posted = request({
      socketPath: socketOf(folder, 'http-service-1'),
      method: 'POST',
      path: ORDERS,
      headers: { 'content-type': 'application/json', 'idempotency-key': 'one' },
      agent: false,
    })
    posted.on('response', resolve).on('error', reject)
    posted.end(JSON.stringify({ padding: '' }))
  })
  response.resume()
  expect(response.statusCode).toBe(503)
  expect(await service.stop(30_000)).toBe(true)
}, 60_000)
