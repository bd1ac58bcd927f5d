import { describe, expect, test } from 'vitest'
import { DatabaseUnavailableError, SchemaError } from '@txbox/core'
import type { InspectionStore } from '@txbox/core/ports'
import { connectedPortsOf } from '@txbox/core/internal'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { messagesOf, publishAll } from '../../support/subjects/relay-under-test.ts'
import { mainKind, useRoot, useTarget, type Root } from '../../support/engines/target.ts'

const target = useTarget()
useOutboxTarget(target)
const kind = mainKind(target)
const root = useRoot(target, kind)
const LEASES = target.engine === 'postgres' ? 'txbox.leases' : 'txbox_leases'

function inspectionOf({ database }: Root): InspectionStore {
  return connectedPortsOf('test', database).inspection()
}

async function lease(name: string, owner: string, forSeconds: number): Promise<void> {
  const until =
    target.engine === 'postgres'
      ? `clock_timestamp() + interval '1 second' * (${forSeconds})`
      : `utc_timestamp(6) + interval ${forSeconds} second`
  await target.sql(
    `insert into ${LEASES} (name, owner, term, expires_at) values ('${name}', '${owner}', 1, ${until})`,
  )
}

test('the figures leave out a killed relay that was replaced, and contain a killed relay without a successor', async () => {
  await lease('relay/replaced', 'replaced', -600)
  await lease('relay/alive', 'alive', 600)
  await lease('outbox/00', 'alive', 600)
  await lease('outbox/01', 'nobody came', -600)
  await lease('relay/nobody came', 'nobody came', -600)
  const { leases } = await inspectionOf(root).status()
  expect(leases.map(({ name }) => name)).toEqual(['outbox/00', 'outbox/01', 'relay/alive'])
})

test('lag is the backlog and its age, the parked messages that are due, and the oldest due message', async () => {
  const inspection = inspectionOf(root)
  const none = { count: 0, atLeast: false }
  expect(await inspection.lag()).toEqual({ backlog: none, parked: none })
  await publishAll(root, messagesOf('k', 3))
  const { backlog, oldestMs } = await inspection.lag()
  expect(backlog).toEqual({ count: 3, atLeast: false })
  expect(oldestMs).toBeGreaterThanOrEqual(0)
})

describe('answers', () => {
  test('resolves if the database answers', async () => {
    await inspectionOf(root).answers(5000)
  })

  test('is given up in time if the pool has no free connection', async () => {
    const small = target.open(kind, { max: 1 })
    const transaction = await small.begin()
    const startedAt = performance.now()
    await expect(inspectionOf(small).answers(300)).rejects.toThrow(DatabaseUnavailableError)
    expect(performance.now() - startedAt).toBeLessThan(2000)
    await transaction.rollback()
    await small.close()
  })

  test('rejects if the tables have another revision', async () => {
    await target.pretendRevision('later')
    await expect(inspectionOf(root).answers(5000)).rejects.toThrow(SchemaError)
  })
})
