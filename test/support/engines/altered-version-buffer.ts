import { expect } from 'vitest'
import { isTxboxError, type TransactionHandle } from '@txbox/core'
import { createGarbageCollector } from '@txbox/gc'
import { createVersionBuffer } from '@txbox/versioning'
import { setOf, type Altered } from './altered-rows.ts'
import { expectRefusal, outcomeOfAsync } from '../worlds/refusals.ts'
import type { Root, Target } from './target.ts'

/** A version buffer with a waiting or dead change that is altered by hand, and a change of another key. */
export function useVersionBuffer(
  target: Target,
  root: Root,
): { check(altered: readonly Altered[], isDead: boolean): Promise<void> } {
  const [prefix, quote] = target.engine === 'postgres' ? ['txbox.', '"'] : ['txbox_', '`']

  return {
    async check(altered, isDead) {
      const consumer = `c${Math.random()}`
      const applied: string[] = []
      const buffer = createVersionBuffer<TransactionHandle>({
        database: root.database,
        consumer,
        maxAgeMs: isDead ? 1 : 60_000,
        apply: (_tx, message) => void applied.push(`${message.key}/${String(message.to)}`),
      })
      const deliver = (key: string, from: number) =>
        root.database.transact((tx) => buffer.process(tx, { key, from, to: from + 1, payload: { from } }))
      for (const key of ['altered', 'beside']) await deliver(key, 1)
      if (isDead) await buffer.sweep()
      const { text, values } = setOf(target, altered)
      await target.sql(
        `update ${prefix}waiting set ${text} where consumer = ? and ${quote}key${quote} = 'altered'`,
        [...values, consumer],
      )
      for (const call of [
        () => deliver('altered', 0),
        () => buffer.sweep(),
        () => buffer.deadLetters({ key: 'altered' }),
        () => buffer.redrive('altered', 1),
        () => buffer.discard('altered', 1),
      ]) {
        const outcome = await outcomeOfAsync<unknown>(call)
        if ('thrown' in outcome) expectRefusal(outcome.thrown)
      }
      // The change of the other key is applied.
      if (isDead) expect(await buffer.deadLetters({ key: 'beside' })).toHaveLength(1)
      await deliver('beside', 0)
      if (!isDead) expect(applied).toContain('beside/2')
      const gc = createGarbageCollector({
        database: root.database,
        pauseMs: 0,
        versionBuffers: [buffer],
        logger: false,
      })
      const collected = await outcomeOfAsync(() => gc.runOnce())
      if ('thrown' in collected && isTxboxError(collected.thrown)) throw collected.thrown
    },
  }
}
