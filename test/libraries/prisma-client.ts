import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { crc32 } from 'node:zlib'

const LIBRARIES = fileURLToPath(new URL('newest', import.meta.url))
const MODEL = `
model Effect {
  seq  BigInt @id @default(autoincrement())
  name String
  @@map("effects")
}
model Counter {
  name String @id
  n    Int
  @@map("counters")
}`

/**
 * Imports the code that Prisma generates for a schema. It is generated at the first use, without a download: the schema
 * engine, which would be downloaded, takes no part in it.
 */
export async function importClient(provider: 'postgresql' | 'mysql'): Promise<unknown> {
  // The code of another schema may be there from before.
  const version = crc32(MODEL).toString(16)
  const folder = join(LIBRARIES, '.generated', `prisma-${provider}-${version}`)
  if (!existsSync(folder)) await generate(provider, folder)
  return import(/* @vite-ignore */ pathToFileURL(join(folder, 'client', 'client.ts')).href)
}

/** Several workers may generate at once: the folder of the first that is complete is the one that stays. */
async function generate(provider: string, folder: string): Promise<void> {
  await mkdir(join(LIBRARIES, '.generated'), { recursive: true })
  const own = await mkdtemp(join(LIBRARIES, '.generated', 'incomplete-'))
  await writeFile(
    join(own, 'schema.prisma'),
    `generator client {
  provider = "prisma-client"
  output   = "./client"
}
datasource db {
  provider = "${provider}"
}${MODEL}
`,
  )
  const config = join(own, 'prisma.config.ts')
  await writeFile(
    config,
    `export default { schema: './schema.prisma', datasource: { url: '${provider}://localhost/test' } }\n`,
  )
  const prisma = join(LIBRARIES, 'node_modules', 'prisma', 'build', 'index.js')
  await promisify(execFile)(process.execPath, [prisma, 'generate', '--config', config], {
    cwd: LIBRARIES,
    // Any program that exists will do.
    env: { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: process.execPath, CHECKPOINT_DISABLE: '1' },
  })
  await rename(own, folder).catch(async (error: unknown) => {
    await rm(own, { recursive: true, force: true })
    if (!existsSync(folder)) throw error
  })
}
