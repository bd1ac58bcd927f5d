import { isTxboxError } from '@txbox/core'
import { expect, onTestFinished, test, vi } from 'vitest'
import { BoxUnderTest } from '../../support/subjects/box-under-test.ts'
import { rootThroughProxy } from '../../support/engines/root-through-proxy.ts'
import { mainKind, useRoot, useTarget, type Root } from '../../support/engines/target.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target), { max: 16 })

/** A root on tables of its own, which are not there yet. */
async function freshRoot(schema: string): Promise<Root> {
  const fresh = target.open(mainKind(target), { schema, max: 8 })
  await fresh.ready?.()
  onTestFinished(() => fresh.close())
  return fresh
}

function inEnvironment(environment: string | undefined): void {
  vi.stubEnv('NODE_ENV', environment)
  onTestFinished(() => void vi.unstubAllEnvs())
}

async function errorOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => undefined,
    (error: unknown) => error,
  )
}

test('T1 several processes start at once, the tables are made once, and their handlers share the messages', async () => {
  inEnvironment(undefined)
  const roots = await Promise.all(Array.from({ length: 4 }, () => freshRoot('started')))
  const subject = new BoxUnderTest(target, roots[0]!)
  const boxes = roots.map((one) => subject.create({ billing: { made: () => undefined } }, {}, one))
  await Promise.all(boxes.map((box) => box.start()))
  for (const box of boxes) await box.transact(() => box.publish(subject.message('made')))
  await subject.hasEffects(4)
  expect(await Promise.all(boxes.map((box) => box.health()))).toMatchObject(boxes.map(() => ({ ok: true })))
  // A second start is the first one.
  await boxes[0]!.start()
})

test('T1 start makes no tables in production, and says so before anything runs', async () => {
  inEnvironment('production')
  const fresh = await freshRoot('production')
  const subject = new BoxUnderTest(target, fresh)
  const box = subject.create({ billing: { made: () => undefined } })
  const refused = await errorOf(box.start())
  expect(refused).toMatchObject({ code: 'TXBOX_SCHEMA', message: expect.stringMatching(/txbox migrate/) })
  expect(await errorOf(box.drain())).toMatchObject({ code: 'TXBOX_SCHEMA' })
  await expect(box.health()).resolves.toMatchObject({ ok: false })
  const migrating = subject.create({ billing: { made: () => undefined } }, { migrate: true })
  await migrating.start()
  // The same box starts when the tables are there.
  await box.start()
  await box.transact(() => box.publish(subject.message('made')))
  await subject.hasEffects(1)
})

test('T1 start makes tables that are missing, and leaves earlier ones to development and tests, or to migrate: true', async () => {
  const fresh = await freshRoot('earlier')
  const start = async (environment: string | undefined, migrate?: boolean): Promise<unknown> => {
    inEnvironment(environment)
    const subject = new BoxUnderTest(target, fresh)
    const box = subject.create({}, { migrate })
    const error = await errorOf(box.start())
    await box.stop()
    return isTxboxError(error) ? error.code : error
  }
  const earlier = (): Promise<unknown> =>
    target.sql(
      `delete from ${migrationsOf('earlier')} where number = (select n from (select max(number) as n from ${migrationsOf('earlier')}) as m)`,
    )
  expect(await start(undefined, false)).toBe('TXBOX_SCHEMA')
  expect(await start(undefined)).toBeUndefined()
  await earlier()
  expect(await start(undefined)).toBe('TXBOX_SCHEMA')
  expect(await start('production')).toBe('TXBOX_SCHEMA')
  expect(await start('development')).toBeUndefined()
  await earlier()
  expect(await start('test')).toBeUndefined()
  await earlier()
  expect(await start('production', true)).toBeUndefined()
})

function migrationsOf(schema: string): string {
  return target.engine === 'postgres' ? `"${schema}".migrations` : `${schema}migrations`
}

test('T2 start rejects while the database is away, and may be called again', async () => {
  const { proxy, through } = await rootThroughProxy(target, mainKind(target))
  const subject = new BoxUnderTest(target, root)
  const box = subject.create({ billing: { made: () => undefined } }, {}, through)
  const refusing = proxy.refuse()
  expect(await errorOf(box.start())).toMatchObject({ code: 'TXBOX_DATABASE_UNAVAILABLE' })
  expect(await box.health()).toMatchObject({ ok: false, oldestDueMs: Number.NaN })
  refusing.over()
  await box.start()
  await box.transact(() => box.publish(subject.message('made')))
  await subject.hasEffects(1)
})

test('T2 if one part cannot start, the others stop, and the error says which', async () => {
  const { proxy, through } = await rootThroughProxy(target, mainKind(target))
  const subject = new BoxUnderTest(target, root)
  const logger = {
    warn: () => undefined,
    error: () => undefined,
    // The relay starts after the consumers, when the database is away.
    info: (object: object) => {
      if (Reflect.get(object, 'event') === 'started') proxy.refuse()
    },
  }
  const publisher = { publish: async () => [], close: vi.fn(async () => undefined) }
  const box = subject.create({ billing: { made: () => undefined } }, { logger, publisher }, through)
  expect(await errorOf(box.start())).toMatchObject({
    code: 'TXBOX_START',
    part: 'relay',
    retryable: true,
    message: expect.stringMatching(
      /^start: the part 'relay' could not start: .*The other parts were stopped/s,
    ),
    cause: { code: 'TXBOX_DATABASE_UNAVAILABLE' },
  })
  await Promise.all(Object.values(box.consumers).map((consumer) => consumer.stopped))
  await box.stopped
  expect(publisher.close).toHaveBeenCalledOnce()
  expect(await errorOf(box.start())).toMatchObject({ code: 'TXBOX_INVALID_OPTION' })
})

test('T2 a box whose signal is aborted does not start, and one that is stopped meanwhile ends its start', async () => {
  const subject = new BoxUnderTest(target, root)
  const aborted = subject.create({}, { signal: AbortSignal.abort() })
  expect(await errorOf(aborted.start())).toMatchObject({ message: /this txbox has been stopped/ })
  const box = subject.create({ billing: { made: () => undefined } })
  const starting = errorOf(box.start())
  await box.stop()
  expect(await starting).toMatchObject({ message: /this txbox has been stopped/ })
  expect(await errorOf(box.drain())).toMatchObject({ message: /this txbox has been stopped/ })
})
