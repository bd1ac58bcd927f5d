import { expect, onTestFinished, test } from 'vitest'
import { consumerLog } from '../../packages/consumer/src/options/consumer-log.ts'

/** The process warnings of txbox from now on. */
function processWarnings(): readonly string[] {
  const texts: string[] = []
  const listener = (warning: Error): void =>
    void (warning.name === 'TxboxWarning' && texts.push(warning.message))
  process.on('warning', listener)
  onTestFinished(() => void process.off('warning', listener))
  return texts
}

test('L6 a warning of a source is a process warning without a logger, and nothing with `false`', async () => {
  const warnings = processWarnings()
  consumerLog('billing', undefined).warned("There is no handler for the type 'renamed'.", 'source')
  await expect.poll(() => warnings).toHaveLength(1)
  expect(warnings[0]).toMatch(
    /^The consumer billing: There is no handler for the type 'renamed'\. Pass the option 'logger'/,
  )
  consumerLog('billing', false).warned('Nothing.', 'source')
  await new Promise((resolve) => setImmediate(resolve))
  expect(warnings).toHaveLength(1)
})

test('L6 with a logger, a warning of a source is a line of the log only', async () => {
  const warnings = processWarnings()
  const lines: string[] = []
  const line = (_object: object, text: string): void => void lines.push(text)
  const logger = { debug: line, info: line, warn: line, error: line }
  consumerLog('billing', logger).warned('There is no handler.', 'source')
  await new Promise((resolve) => setImmediate(resolve))
  expect([lines, warnings]).toEqual([['The consumer billing: There is no handler.'], []])
})
