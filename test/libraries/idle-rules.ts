import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { connectedPortsOf } from '@txbox/core/internal'
import { libraryUnderTest } from '../support/engines/library-roots.ts'
import type { HandleKind, Target } from '../support/engines/target.ts'
import { until } from '../support/worlds/until.ts'

/**
 * When a server of PostgreSQL ends the transactions of a library.
 *
 * @param isAlone there is one connection only, as on PGlite.
 */
export function idleRules(target: Target, kind: HandleKind, isAlone: boolean): void {
  const limitIn = async (tx: object): Promise<unknown> => {
    const setting = "select current_setting('idle_in_transaction_session_timeout') as setting"
    return (await libraryUnderTest!.exec(tx, setting, []))[0]?.['setting']
  }
  const open = async () => {
    const root = target.open(kind, { max: 1 })
    await root.ready?.()
    onTestFinished(() => root.close())
    return connectedPortsOf('test', root.database)
  }

  if (isAlone || libraryUnderTest!.keepsIdleTransactions === true) {
    test('the server does not end an idle transaction, with which more would end', async () => {
      const ports = await open()
      const before = await ports.transact(limitIn as never, {})
      expect(await ports.transact(limitIn as never, { idleLimitMs: 30_000 })).toBe(before)
    })
    return
  }

  test.each([undefined, 'repeatable read'] as const)(
    'L4 the server ends the transaction of a handler that is frozen, and the time that it allows is for this transaction only: %s',
    async (isolation) => {
      const ports = await open()
      const before = await ports.transact(limitIn as never, {})
      expect(await ports.transact(limitIn as never, { isolation, idleLimitMs: 30_000 })).toBe('30s')
      expect(await ports.transact(limitIn as never, {})).toBe(before)

      const name = randomUUID()
      await target.sql('insert into effects (name) values (?)', [name])
      let isEnded = false
      const frozen = ports.transact(
        async (tx) => {
          await libraryUnderTest!.exec(
            tx as object,
            'select 1 as one from effects where name = $1 for update',
            [name],
          )
          const isFree = async (): Promise<boolean> =>
            (await target.sql('select 1 from effects where name = ? for update skip locked', [name])).length >
            0
          expect(await isFree()).toBe(false)
          await until(isFree, () => 'the server has not ended the transaction')
          isEnded = true
        },
        { isolation, idleLimitMs: 500 },
      )
      await expect(frozen).rejects.toThrow()
      expect(isEnded).toBe(true)
      expect(await ports.transact(limitIn as never, {})).toBe(before)
    },
  )
}
