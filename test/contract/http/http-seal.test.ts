import { expect, test } from 'vitest'
import { IdempotencyUnderTest, isReplayed, textOf } from '../../support/subjects/idempotency-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target))
const flip = (bytes: Uint8Array): Uint8Array => bytes.map((byte) => byte ^ 0x55)

/** What is stored for the request that was handled last, with all that base64 hides. */
async function storedTexts(): Promise<string> {
  const inbox = target.outboxTable.replace('outbox', 'inbox')
  const [claim] = await target.sql(`select result from ${inbox} order by processed_at desc limit 1`)
  const result = String(claim?.['result'])
  const hidden = [...result.matchAll(/[A-Za-z0-9+/=]{8,}/g)].map(([text]) => Buffer.from(text, 'base64'))
  return [result, ...hidden.map(String)].join('\n')
}

test('a sealed response hides body and headers, and one that cannot be opened is a 500, never a second run', async () => {
  let isKeyKnown = true
  const seal = {
    seal: async (bytes: Uint8Array) => flip(bytes),
    open: (bytes: Uint8Array) => {
      if (!isKeyKnown) throw new Error('no such key')
      return Promise.resolve(flip(bytes))
    },
  }
  const sealed = new IdempotencyUnderTest(target, root, { seal })
  const plain = new IdempotencyUnderTest(target, root, { name: sealed.name })
  await sealed.handle()
  expect(await storedTexts()).not.toMatch(/order|json|201/i)
  expect(textOf(await sealed.handle())).toBe('{"order":1}')
  expect((await plain.handle()).status).toBe(500)
  isKeyKnown = false
  expect((await sealed.handle()).status).toBe(500)
  expect([sealed.calls, plain.calls, sealed.errors.length, plain.errors.length]).toEqual([1, 0, 1, 1])
  // A response that was stored before the option was set.
  await plain.handle({ path: '/plain' })
  expect(await storedTexts()).toMatch(/order.*json|json.*order/i)
  expect(isReplayed(await sealed.handle({ path: '/plain' }))).toBe(true)
})

test('H13 a response that is not opened within timeoutMs is a 503, never a second run', async () => {
  let isHanging = true
  const seal = {
    seal: flip,
    open: async (bytes: Uint8Array) => (isHanging ? new Promise<never>(() => undefined) : flip(bytes)),
  }
  const subject = new IdempotencyUnderTest(target, root, { seal, timeoutMs: 200 })
  await subject.handle()
  const startedAt = performance.now()
  const response = await subject.handle()
  expect(performance.now() - startedAt).toBeLessThan(5000)
  expect([response.status, response.headers?.['retry-after']]).toEqual([503, '1'])
  expect(subject.errors).toMatchObject([{ code: 'TXBOX_HANDLE_TIMEOUT' }])
  isHanging = false
  expect([isReplayed(await subject.handle()), subject.calls]).toEqual([true, 1])
})

test('H13 a response that is not sealed within timeoutMs is rolled back', async () => {
  const seal = { seal: () => new Promise<never>(() => undefined), open: flip }
  const subject = new IdempotencyUnderTest(target, root, { seal, timeoutMs: 200 })
  expect((await subject.handle()).status).toBe(503)
  expect([subject.calls, await subject.effects(), subject.errors.length]).toEqual([1, 0, 1])
})

test('H14 a body of maxResponseBytes is stored, also in base64 and sealed, beyond the limit of results', async () => {
  const seal = { seal: (bytes: Uint8Array) => bytes, open: (bytes: Uint8Array) => bytes }
  const subject = new IdempotencyUnderTest(target, root, { maxResponseBytes: 1_048_576, seal })
  const body = Buffer.alloc(1_048_576, 255)
  expect((await subject.handle({}, () => ({ status: 200, body }))).status).toBe(200)
  expect(Buffer.compare(body, (await subject.handle()).body as Buffer)).toBe(0)
})
