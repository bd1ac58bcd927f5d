import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { TransactionConflictError, portsKey } from '@txbox/core'
import type { ConnectedPorts } from '@txbox/core/ports'
import { InboxUnderTest } from '../support/subjects/inbox-under-test.ts'
import { onEachKind, useRoot, useTarget } from '../support/engines/target.ts'

/*
 * Errors of the nodes of a cluster, raised by a server that is not in a cluster: SIGNAL accepts any number.
 */
const target = useTarget()

const GROUP_CONFLICT =
  "signal sqlstate 'HY000' set mysql_errno = 3101, message_text = 'Plugin instructed the server'"
const DEADLOCK_DURING_COMMIT =
  "signal sqlstate 'HY000' set mysql_errno = 1180, message_text = 'Got error 149 - Lock deadlock; Retry transaction'"
const NO_PRIMARY_COMPONENT =
  "signal sqlstate 'HY000' set mysql_errno = 1180, message_text = 'lost connection to the primary component'"

onEachKind(target, (kind) => {
  const root = useRoot(target, kind)

  test('I5 run makes another attempt after a conflict of the group, after a longer pause than after a deadlock', async () => {
    const subject = new InboxUnderTest(target, root)
    const startedAt = performance.now()
    const outcome = await subject.inbox.run({ id: 'x' }, async (tx, message, context) => {
      if (context.attempt < 4) await target.exec(tx, GROUP_CONFLICT)
      return subject.handle(tx, message, context)
    })
    expect(outcome).toMatchObject({ status: 'processed' })
    // Half of 100, 200 and 400 ms at least; after a deadlock it would be 70 ms at most.
    expect(performance.now() - startedAt).toBeGreaterThan(349)
    expect(await subject.effects()).toBe(1)
  })

  test('I5 run makes another attempt after a deadlock during COMMIT, and none when the cluster has no primary component', async () => {
    const subject = new InboxUnderTest(target, root)
    const startedAt = performance.now()
    const outcome = await subject.inbox.run({ id: 'x' }, async (tx, message, context) => {
      if (context.attempt < 3) await target.exec(tx, DEADLOCK_DURING_COMMIT)
      return subject.handle(tx, message, context)
    })
    expect(outcome).toMatchObject({ status: 'processed' })
    // Half of 100 and 200 ms at least.
    expect(performance.now() - startedAt).toBeGreaterThan(149)
    let attempts = 0
    const ran = subject.inbox.run({ id: 'y' }, async (tx) => {
      attempts += 1
      await target.exec(tx, NO_PRIMARY_COMPONENT)
    })
    await expect(ran).rejects.toMatchObject({ errno: 1180 })
    expect(attempts).toBe(1)
  })

  describe('leases', () => {
    beforeAll(async () => {
      await target.sql('drop table if exists refusing')
      await target.sql('create table refusing (until datetime(6))')
      await target.sql('drop trigger if exists refuse_lease')
      await target.sql(`create trigger refuse_lease before update on txbox_leases for each row begin
        declare refused_until datetime(6);
        select max(until) into refused_until from refusing;
        if refused_until > sysdate(6) then ${GROUP_CONFLICT}; end if;
      end`)
    })
    afterEach(() => target.sql('delete from refusing'))

    /** The group refuses every change of a lease for this time. */
    const acquire = async (refusingMs: number): Promise<number> => {
      await target.sql('insert into refusing select sysdate(6) + interval ? microsecond', [refusingMs * 1000])
      const leases = (root.database as unknown as Record<symbol, ConnectedPorts>)[portsKey]!.leases()
      try {
        const request = { owner: `owner-${refusingMs}`, ttlMs: 60_000, limit: 1 }
        return (await leases.acquire([`lease ${kind.name} ${refusingMs}`], request)).length
      } finally {
        await leases.close()
      }
    }

    test('O10 a lease is acquired even if the group refuses the first attempts', async () => {
      // The pauses before the fifth attempt are 375 ms at least.
      expect(await acquire(300)).toBe(1)
    })

    test('O10 a conflict that does not end is reported after five attempts', async () => {
      await expect(acquire(3_600_000)).rejects.toThrow(TransactionConflictError)
    })
  })
})
