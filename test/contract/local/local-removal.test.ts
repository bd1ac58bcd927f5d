import { expect, test } from 'vitest'
import { LocalUnderTest } from '../../support/subjects/local-under-test.ts'
import { onEachRoot, useRoot, useTarget, type Row } from '../../support/engines/target.ts'

const target = useTarget()

onEachRoot(target, (kind) => {
  const root = useRoot(target, kind, { max: 12 })

  test('L1 L10 a transaction whose message is not there at its end is rolled back, and the try is counted', async () => {
    const subject = new LocalUnderTest(target, root)
    const ids = await subject.publish({ key: 'a' }, { key: 'a' })
    await subject.start('billing', async (tx, { id }, { deliveries }) => {
      if (id !== ids[0] || deliveries > 1) return
      const exec = (text: string, parameters?: readonly unknown[]): Promise<readonly Row[]> =>
        target.exec(tx, text, parameters)
      await subject.deleteRow({ exec }, id)
    })
    await subject.settled()
    expect(await subject.effectsInOrder()).toEqual(ids)
    expect(subject.runsOf(ids[0]).map(({ deliveries }) => deliveries)).toEqual([1, 2])
    const [retried] = subject.heardOf('retried')
    expect(retried?.error).toMatchObject({ code: 'TXBOX_TRANSACTION_ABORTED', mayHaveCommitted: false })
  })
})
