import { expect, onTestFinished, test } from 'vitest'
import { InboxUnderTest } from '../../support/subjects/inbox-under-test.ts'
import { libraryRoot } from '../../support/engines/library-roots.ts'
import { useTarget } from '../../support/engines/target.ts'

const target = useTarget()

for (const mode of ['reuse', 'savepoint', 'separate']) {
  test(`run opens its own transaction inside one of the caller (defaultTransactionNestMode: ${mode})`, async () => {
    const root = target.open(target.kinds[0]!, { max: 4 })
    await root.ready?.()
    onTestFinished(() => root.close())
    const library = libraryRoot(root)
    // Sequelize freezes its options.
    const options = { ...(library.db as { options: object }).options, defaultTransactionNestMode: mode }
    Object.defineProperty(library.db, 'options', { value: options })
    const subject = new InboxUnderTest(target, root)
    const outer = library.transact(async () => {
      await subject.inbox.run({ id: 'm' }, subject.handle)
      throw new Error('of the caller')
    })
    await expect(outer).rejects.toThrow('of the caller')
    expect([await subject.claimedKeys(), await subject.effects()]).toEqual([['m'], 1])
  })
}
