import { execFile } from 'node:child_process'
import { rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { REGION, useSqs } from './sqs-under-test.ts'

const sqs = useSqs()

test('S4 a process ends when its publisher is closed and its consumer has stopped, although a request waits for messages', async () => {
  const queue = await sqs.current.queue()
  const options = JSON.stringify({ endpoint: sqs.current.endpoint, region: REGION })
  // In the workspace, because the program imports its packages.
  const file = path.join(import.meta.dirname, `ends-${process.pid}.gen.mjs`)
  onTestFinished(() => rm(file, { force: true }))
  await writeFile(
    file,
    `import { createConsumer } from '@txbox/consumer'
    import { sqsPublisher, sqsSource } from '@txbox/sqs'
    const options = ${options}
    const publisher = sqsPublisher(options)
    await publisher.check({ signal: new AbortController().signal })
    const consumer = createConsumer({
      source: sqsSource({ ...options, queue: '${queue}' }),
      name: 'billing',
      deadLetters: publisher,
      handler: async () => undefined,
      logger: false,
    })
    await consumer.start()
    await new Promise((resolve) => setTimeout(resolve, 200))
    await consumer.stop()
    await publisher.close()
    console.log('stopped')`,
  )
  const began = performance.now()
  const { stdout } = await promisify(execFile)(process.execPath, [file], { timeout: 15_000 })
  expect(stdout).toContain('stopped')
  expect(performance.now() - began).toBeLessThan(8000)
})
