// The programs of docs/webhooks.md, on the packages of this workspace. `npm run check:readme` runs them on the packed ones.
import { mkdtempSync, rmSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { runWebhooksPage } from '../../../scripts/webhook-page.mjs'
import { useDatabaseUrl } from '../../cli/use-database-url.ts'

const database = useDatabaseUrl()

test(
  'W3 W4 W5 the programs for Express, Fastify, Hono, NestJS and Next.js answer 2xx after the commit, once, 401, 400 and 5xx; slow work is stored and done once; older events are not applied',
  { timeout: 240_000 },
  async () => {
    const folder = mkdtempSync(path.join(import.meta.dirname, '.page-'))
    try {
      await runWebhooksPage(folder, { ...process.env, DATABASE_URL: database.url })
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
    expect(folder).not.toBe('')
  },
)
