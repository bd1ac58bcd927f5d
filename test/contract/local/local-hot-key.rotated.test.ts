import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { keysOfOneShard } from '../../support/subjects/keys.ts'
import { LocalUnderTest } from '../../support/subjects/local-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { undisturbed } from '../../support/worlds/undisturbed.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target), { max: 16 })
/** For the figure of the rule: TXBOX_TEST_HOT_KEY=100000. */
const HOT = Number(process.env['TXBOX_TEST_HOT_KEY'] ?? 4000)
const HANDLER_MS = 100
const [hot, ...others] = keysOfOneShard(6) as [string, ...string[]]

async function publishHot(subject: LocalUnderTest): Promise<string[]> {
  const ids: string[] = []
  for (let left = HOT; left > 0; left -= 2000) {
    const messages = Array.from({ length: Math.min(left, 2000) }, () => ({ key: hot }))
    ids.push(...(await subject.publishTogether(messages)))
  }
  return ids
}

test(`L2 L4 behind ${HOT} messages of one key with a slow handler, messages of other keys are handled within a second, also in the same shard`, async () => {
  const subject = new LocalUnderTest(target, root)
  const ids = await publishHot(subject)
  await subject.start('billing', (_tx, { key }) => (key === hot ? sleep(HANDLER_MS) : undefined), {
    concurrency: 4,
  })
  await subject.hears('handled', 3)
  const handled: string[] = []
  for (let round = 0; round < 5; round += 1) {
    const { tookMs } = await undisturbed(target, async () => {
      // Some keys of the same shard, a key of another shard, and no key.
      const sent = await subject.publish(...others.map((key) => ({ key })), { key: `elsewhere-${round}` }, {})
      handled.push(...sent)
      const isLeft = (): boolean => handled.some((id) => subject.heardOf('handled', { id }).length === 0)
      while (isLeft()) await sleep(2)
    })
    expect(tookMs, `round ${round}`).toBeLessThan(1000)
  }
  const effects = await subject.effectsInOrder()
  const hotEffects = effects.filter((id) => !handled.includes(id))
  expect(hotEffects.length).toBeGreaterThan(3)
  expect(hotEffects).toEqual(ids.slice(0, hotEffects.length))
  expect(subject.violations).toEqual([])
}, 300_000)

test(`L2 L5 behind ${HOT} messages whose first one waits for its next attempt, messages of other keys are handled within a second`, async () => {
  const subject = new LocalUnderTest(target, root)
  const [first] = await publishHot(subject)
  await subject.start(
    'billing',
    (_tx, { key }) => {
      if (key === hot) throw new Error('not now')
    },
    { retry: { attempts: 5, delayMs: () => 600_000 } },
  )
  await subject.hears('retried')
  const { tookMs } = await undisturbed(target, async () => {
    await subject.publish(...others.map((key) => ({ key })))
    await subject.hears('handled', others.length)
  })
  expect(tookMs).toBeLessThan(1000)
  expect(subject.runs.filter(({ key }) => key === hot).map(({ id }) => id)).toEqual([first])
}, 300_000)
