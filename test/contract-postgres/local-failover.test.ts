import { expect, test } from 'vitest'
import { LocalUnderTest } from '../support/subjects/local-under-test.ts'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'
import { Gate } from '../support/worlds/broker.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target), { max: 10 })

/**
 * As a failover to a standby that lacks the last commits: all connections end, the table is as it was, and its numbers go back.
 */
const failover = (effects: string): string => `
do $$
begin
  perform pg_catalog.pg_terminate_backend(a.pid) from pg_catalog.pg_stat_activity as a
  where a.datname = pg_catalog.current_database() and a.pid <> pg_catalog.pg_backend_pid();
  lock table txbox.local_outbox in access exclusive mode;
  delete from txbox.local_outbox;
  insert into txbox.local_outbox overriding system value select * from local_outbox_before;
  delete from effects where ${effects};
  perform pg_catalog.setval('txbox.local_outbox_seq', (select pg_catalog.min(b.seq) from local_outbox_before as b));
end $$`

test('L4 after a failover that lost commits, a message whose handler lost its connection waits for the earlier messages of its key that are there again', async () => {
  const subject = new LocalUnderTest(target, root)
  const [first, second, third] = await subject.publish({ key: 'k' }, { key: 'k' }, { key: 'k' })
  await target.sql('create table local_outbox_before as select * from txbox.local_outbox')
  try {
    const gate = new Gate()
    const handled: string[] = []
    let isCut = false
    await subject.start('billing', async (_tx, { id }) => {
      if (id === second && !isCut) {
        await gate.pass()
        isCut = true
      } else handled.push(id)
    })
    await gate.reached()
    await target.sql(failover(`name like '%${first!}'`))
    gate.open()
    await subject.settled()
    expect(handled).toEqual([first, first, second, third])
    expect(await subject.effectsInOrder()).toEqual([first, second, third])
  } finally {
    await target.sql('drop table local_outbox_before')
  }
})
