import type { ServerKind } from './server.ts'

/** No server at all: each test file has a database in its own process. */
export const pgliteServer: ServerKind = {
  title: 'PGlite',
  sources: [
    {
      name: 'the npm package @electric-sql/pglite',
      async find() {
        return { url: 'pglite:', description: 'a database in the process of each test file' }
      },
    },
  ],
  remedy: "Run 'npm run setup'.",
}
