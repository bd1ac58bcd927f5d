import { expect, test, vi } from 'vitest'
import { transactOn } from '../../packages/sql/src/transactions/transact.ts'

const errors = { translate: (error: unknown) => error } as never

/** `transact` of a root that counts its rollbacks, with a connection that `sever` closes. */
function transactWith(sever: (() => void) | undefined): {
  readonly transact: ReturnType<typeof transactOn>
  readonly ended: string[]
} {
  const ended: string[] = []
  const root = {
    async transact(_: unknown, work: (tx: unknown, opening: undefined) => Promise<unknown>) {
      try {
        const result = await work({}, undefined)
        ended.push('commit')
        return result
      } catch (error) {
        ended.push('rollback')
        throw error
      }
    },
  }
  const driver = { monitor: () => undefined, ...(sever !== undefined && { sever }) }
  const session = { driver, connection: {}, isOpen: () => true } as never
  return {
    transact: transactOn({ root: root as never, db: {}, checksCommit: false }, errors, async () => session),
    ended,
  }
}

test('I2 an abort closes the connection, and does not wait for the work', async () => {
  const sever = vi.fn<() => void>()
  const { transact, ended } = transactWith(sever)
  const controller = new AbortController()
  const given = transact(() => new Promise(() => undefined), { signal: controller.signal })
  const reason = new Error('took too long')
  setImmediate(() => controller.abort(reason))
  await expect(given).rejects.toBe(reason)
  expect([sever.mock.calls.length, ended]).toEqual([1, ['rollback']])
})

test('I2 without a way to close the connection, an abort waits for the work, and rolls back', async () => {
  const { transact, ended } = transactWith(undefined)
  const controller = new AbortController()
  const work = Promise.withResolvers<string>()
  const given = transact(() => work.promise, { signal: controller.signal })
  await new Promise(setImmediate)
  const reason = new Error('took too long')
  controller.abort(reason)
  await new Promise(setImmediate)
  expect(ended).toEqual([])
  work.resolve('late')
  await expect(given).rejects.toBe(reason)
  expect(ended).toEqual(['rollback'])
})

test('I2 N1 if closing the connection fails, a process warning says so, and the abort waits for the work', async () => {
  const emitWarning = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined)
  try {
    const { transact, ended } = transactWith(() => {
      throw new Error('no such method')
    })
    const controller = new AbortController()
    const work = Promise.withResolvers<string>()
    const given = transact(() => work.promise, { signal: controller.signal })
    await new Promise(setImmediate)
    const reason = new Error('took too long')
    controller.abort(reason)
    await new Promise(setImmediate)
    expect(ended).toEqual([])
    expect(emitWarning).toHaveBeenCalledExactlyOnceWith(expect.stringContaining('no such method'), {
      type: 'TxboxWarning',
      code: 'TXBOX_CLOSE_FAILED',
    })
    work.resolve('late')
    await expect(given).rejects.toBe(reason)
    expect(ended).toEqual(['rollback'])
  } finally {
    emitWarning.mockRestore()
  }
})

test('I2 a signal that is not aborted changes nothing, and keeps no listener', async () => {
  const { transact, ended } = transactWith(() => undefined)
  const { signal } = new AbortController()
  const remove = vi.spyOn(signal, 'removeEventListener')
  expect(await transact(async () => 'done', { signal })).toBe('done')
  expect([ended, remove.mock.calls.length]).toEqual([['commit'], 1])
})
