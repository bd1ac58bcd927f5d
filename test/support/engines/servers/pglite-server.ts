import { mkdtempSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { PGlite } from '@electric-sql/pglite'
import type { ServerKind } from './server.ts'

/**
 * No server at all: each test file has a database in its own process. Its address is that of a file with the data of an
 * empty database, which takes a fifth of the processor time of making them.
 */
export const pgliteServer: ServerKind = {
  title: 'PGlite',
  sources: [
    {
      name: 'the npm package @electric-sql/pglite',
      async find() {
        const folder = mkdtempSync(path.join(os.tmpdir(), 'txbox-pglite-'))
        const file = path.join(folder, 'empty.tar')
        const pglite = await PGlite.create()
        await writeFile(file, (await pglite.dumpDataDir('none')).stream())
        await pglite.close()
        return {
          url: `pglite:${file}`,
          description: 'a database in the process of each test file',
          stop: () => rm(folder, { recursive: true }),
        }
      },
    },
  ],
  remedy: "Run 'npm run setup'.",
}
