import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import { expect, inject, test } from 'vitest'
import { useTarget } from '../../support/engines/target.ts'

const target = useTarget({ migrated: false })
const main = path.join(import.meta.dirname, '..', '..', '..', 'examples', 'versioning', 'main.ts')

test('V2 V4 V6 the example ends with every order correct, in the three ways that guarantee it', async () => {
  const url = new URL(inject('servers')[inject('needs')[0]!]!)
  const name = target.engine === 'postgres' ? 'current_database()' : 'database()'
  const [row] = await target.sql(`select ${name} as name`)
  url.pathname = `/${String(row?.['name'])}`
  const { stdout } = await promisify(execFile)(process.execPath, [main], {
    env: { ...process.env, DATABASE_URL: url.href },
  })
  expect(stdout).toMatch(/state machine +20 of 20 +20 of 20/)
  expect(stdout).toMatch(/last writer +20 of 20/)
  expect(stdout).toMatch(/strict +20 of 20 +20 of 20/)
})
