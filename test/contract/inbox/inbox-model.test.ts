import * as fc from 'fast-check'
import { test } from 'vitest'
import { InboxUnderTest } from '../../support/subjects/inbox-under-test.ts'
import { onEachKind, useRoot, useTarget, type OpenTransaction } from '../../support/engines/target.ts'

const target = useTarget()

/** A few keys, so that they collide often; some of them would be equal in a careless database. */
const key = fc.constantFrom(
  'a',
  'A',
  'á',
  'a ',
  'b',
  'x'.repeat(600),
  `${'x'.repeat(600)}!`,
  '["a"]',
  'sha256:0',
)
const step = fc.oneof(
  fc.record({ do: fc.constant('process' as const), keys: fc.tuple(key) }),
  fc.record({ do: fc.constant('batch' as const), keys: fc.array(key, { maxLength: 6 }) }),
  fc.record({ do: fc.constant('mark' as const), keys: fc.tuple(key) }),
  fc.record({ do: fc.constant('forget' as const), keys: fc.tuple(key) }),
  fc.record({ do: fc.constant('look' as const), keys: fc.tuple(key) }),
)
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never
const transactions = fc.array(
  fc.record({
    steps: fc.array(step, { maxLength: 6 }),
    ends: fc.constantFrom('commit' as const, 'rollback' as const),
  }),
  { maxLength: 6 },
)

/** One step in the inbox, as text that can be compared. */
async function inInbox(
  subject: InboxUnderTest,
  transaction: OpenTransaction,
  { do: what, keys }: Step,
): Promise<string> {
  const { inbox } = subject
  const message = { id: keys[0] ?? '' }
  if (what === 'process') return (await inbox.process(transaction.tx, message, () => undefined)).status
  if (what === 'mark') return inbox.markProcessed(transaction.tx, message)
  if (what === 'forget') return String(await inbox.forget(transaction.tx, message))
  if (what === 'look') return String(await inbox.hasProcessed(transaction.tx, message))
  let fresh: string[] = []
  const batch = keys.map((id) => ({ id }))
  const { outcomes } = await inbox.processBatch(
    transaction.tx,
    batch,
    (_tx, news) => void (fresh = news.map((m) => m.id)),
  )
  return JSON.stringify([outcomes.map((outcome) => outcome.status), fresh])
}

/** The same step in the model, a set of keys. */
function inModel(claimed: Set<string>, { do: what, keys }: Step): string {
  const claim = (id: string): boolean => !claimed.has(id) && claimed.add(id).has(id)
  const id = keys[0] ?? ''
  if (what === 'process') return claim(id) ? 'processed' : 'duplicate'
  if (what === 'mark') return claim(id) ? 'recorded' : 'duplicate'
  if (what === 'forget') return String(claimed.delete(id))
  if (what === 'look') return String(claimed.has(id))
  const fresh: string[] = []
  const statuses = keys.map((each) => (claim(each) && fresh.push(each) ? 'processed' : 'duplicate'))
  return JSON.stringify([statuses, fresh])
}

onEachKind(target, (kind) => {
  const root = useRoot(target, kind)

  test('I1 I2 I8 I13 any sequence of transactions has the outcomes of a set of keys', async () => {
    const property = fc.asyncProperty(transactions, async (course) => {
      const subject = new InboxUnderTest(target, root)
      let committed = new Set<string>()
      for (const { steps, ends } of course) {
        const claimed = new Set(committed)
        const transaction = await root.begin()
        try {
          for (const each of steps) {
            const expected = inModel(claimed, each)
            const actual = await inInbox(subject, transaction, each)
            if (actual !== expected)
              throw new Error(`${JSON.stringify(each)}: ${actual} instead of ${expected}`)
          }
        } finally {
          await transaction[ends]()
        }
        if (ends === 'commit') committed = claimed
      }
      const rows = await target.claims(subject.consumer)
      if (rows.length !== committed.size)
        throw new Error(`${rows.length} claims instead of ${committed.size}`)
    })
    await fc.assert(property, { numRuns: 60 })
  })
})
