import { describe, expect, test } from 'vitest'
import { createOutbox } from '@txbox/outbox'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { messagesOf } from '../support/subjects/relay-under-test.ts'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)

/** Settings that lead the planner to other plans, or execute the same plan in another way. */
const SETTINGS: readonly (readonly string[])[] = [
  ['enable_nestloop = off', 'enable_hashjoin = off', 'enable_mergejoin = off'],
  ['enable_material = off'],
  ['enable_sort = off'],
  ['enable_incremental_sort = off', 'enable_sort = off'],
  ['enable_hashagg = off', 'enable_memoize = off'],
  ['from_collapse_limit = 1', 'join_collapse_limit = 1'],
  ['geqo_threshold = 2', 'geqo_effort = 1'],
  ['jit = on', 'jit_above_cost = 0', 'jit_inline_above_cost = 0', 'jit_optimize_above_cost = 0'],
  ['parallel_setup_cost = 0', 'parallel_tuple_cost = 0', 'min_parallel_table_scan_size = 0'],
  ['plan_cache_mode = force_generic_plan'],
  ['plan_cache_mode = force_custom_plan'],
  ['work_mem = 64'],
  ['cursor_tuple_fraction = 0'],
]

describe('O3 with lockKeys no number is drawn before the locks are held, whatever the plan', () => {
  const root = useRoot(target, mainKind(target))

  async function lastNumber(): Promise<string> {
    const [row] = await outbox.sql('select last_value::text as n, is_called from txbox.outbox_seq')
    return String(row?.['n'])
  }

  for (const settings of SETTINGS) {
    for (const [what, messages] of [
      ['one message', messagesOf('hot', 1)],
      ['three messages', [...messagesOf('cold', 1), ...messagesOf(undefined, 1), ...messagesOf('hot', 1)]],
    ] as const) {
      test(`${settings.join(', ')}: ${what}`, async () => {
        const publisher = createOutbox({ database: root.database, lockKeys: true })
        const [first, second] = [await root.begin(), await root.begin()]
        await publisher.publish(first.tx, messagesOf('hot', 1))
        for (const setting of settings) await second.exec(`set local ${setting}`)
        const before = await lastNumber()
        const published = publisher.publish(second.tx, messages)
        await target.blocked(1)
        expect(await lastNumber()).toBe(before)
        await first.commit()
        await published
        await second.commit()
        expect(Number(await lastNumber())).toBe(Number(before) + messages.length)
      })
    }
  }
})
