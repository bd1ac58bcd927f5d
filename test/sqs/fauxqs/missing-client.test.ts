import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'

const PACKAGES = path.join(import.meta.dirname, '..', '..', '..', 'packages')

/** The output of a program where `@txbox/sqs` is installed, and only these clients of AWS. */
async function printed(program: string, clients: readonly string[] = []): Promise<string> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'txbox-sqs-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const scope = path.join(folder, 'node_modules', '@txbox')
  await mkdir(path.join(scope, 'sqs'), { recursive: true })
  for (const part of ['dist', 'package.json']) {
    await cp(path.join(PACKAGES, 'sqs', part), path.join(scope, 'sqs', part), { recursive: true })
  }
  await symlink(path.join(PACKAGES, 'core'), path.join(scope, 'core'))
  await mkdir(path.join(folder, 'node_modules', '@aws-sdk'))
  for (const client of clients) {
    const installed = path.join(PACKAGES, '..', 'node_modules', '@aws-sdk', client)
    await symlink(installed, path.join(folder, 'node_modules', '@aws-sdk', client))
  }
  const file = path.join(folder, 'program.mjs')
  await writeFile(file, `import { sqsPublisher, sqsSource } from '@txbox/sqs'\n${program}`)
  const { stdout } = await promisify(execFile)(process.execPath, [file], { cwd: folder })
  return stdout
}

test.for([
  ['orders', 'The client for SQS is not installed. Run: npm install @aws-sdk/client-sqs'],
  [
    'arn:aws:sns:eu-central-1:123456789012:orders',
    'The client for SNS is not installed. Run: npm install @aws-sdk/client-sns',
  ],
] as const)('a message for %s says which package is missing', async ([topic, text]) => {
  const message = `{ id: '1', topic: '${topic}', contentType: '', headers: {}, createdAt: new Date(), payload: Buffer.from('a') }`
  const output = await printed(`
    const publishing = sqsPublisher().publish([${message}], { signal: new AbortController().signal })
    await publishing.catch(({ code, message }) => console.log(code, message))`)
  expect(output.trim()).toBe(`TXBOX_BROKER_UNAVAILABLE ${text}`)
})

test('a source says which package is missing', async () => {
  const output = await printed(`
    const opening = sqsSource({ queue: 'orders' }).open({ prefetch: 1, failed: () => undefined })
    await opening.catch(({ message }) => console.log(message))`)
  expect(output.trim()).toBe('The client for SQS is not installed. Run: npm install @aws-sdk/client-sqs')
})

test.for([
  [[], '', 'The client for SQS is not installed. Run: npm install @aws-sdk/client-sqs'],
  [['client-sqs'], '', 'SQS at 127.0.0.1:1 failed: connect ECONNREFUSED 127.0.0.1:1.'],
  [['client-sns'], '', 'SNS at 127.0.0.1:1 failed: connect ECONNREFUSED 127.0.0.1:1.'],
  [['client-sqs', 'client-sns'], '', 'SQS at 127.0.0.1:1 failed: connect ECONNREFUSED 127.0.0.1:1.'],
  [
    ['client-sqs', 'client-sns'],
    "check: 'sns'",
    'SNS at 127.0.0.1:1 failed: connect ECONNREFUSED 127.0.0.1:1.',
  ],
  [
    ['client-sqs'],
    "check: 'sns'",
    'The client for SNS is not installed. Run: npm install @aws-sdk/client-sns',
  ],
] as const)(
  'with the clients %j and the options {%s}, check asks the right service',
  async ([clients, option, text]) => {
    const output = await printed(
      `
    process.env.AWS_ACCESS_KEY_ID = process.env.AWS_SECRET_ACCESS_KEY = 'test'
    const publisher = sqsPublisher({ endpoint: 'http://127.0.0.1:1', region: 'eu-central-1', ${option} })
    await publisher.check({ signal: new AbortController().signal }).catch(({ message }) => console.log(message))`,
      clients,
    )
    expect(output.trim()).toBe(text)
  },
)
