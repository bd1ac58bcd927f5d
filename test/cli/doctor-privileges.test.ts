import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { txbox } from './run-txbox.ts'
import { useShop } from './use-shop.ts'

const shop = useShop()
const role = `stranger_${randomUUID().replaceAll('-', '')}`

beforeAll(() => shop.sql(`create role ${role}`))
afterAll(() => shop.sql(`drop owned by ${role}; drop role ${role}`))

async function problems(): Promise<readonly (readonly [string, string])[]> {
  const url = new URL(shop.url)
  url.searchParams.set('options', `-c role=${role}`)
  const { code, stdout, stderr } = await txbox(['doctor', '--json'], { DATABASE_URL: url.href })
  expect([code, stderr]).toEqual([1, ''])
  const { findings } = JSON.parse(stdout) as {
    findings: { check: string; verdict: string; found: string; advice?: string }[]
  }
  expect(findings[0]).toMatchObject({ check: 'server', verdict: 'ok' })
  const found = findings.filter(({ verdict }) => verdict === 'problem')
  for (const { advice } of found) expect(advice).toContain('docs/privileges')
  return found.map(({ check, found: text }) => [check, text])
}

test('doctor reports missing privileges as a problem, beside its other findings', async () => {
  expect(await problems()).toEqual([['revision', 'permission denied for schema txbox']])
  await shop.sql(`grant usage on schema txbox to ${role}; grant select on txbox.migrations to ${role}`)
  const found = await problems()
  expect(found.at(-1)).toEqual(['traffic', expect.stringMatching(/^permission denied for table /)])
})
