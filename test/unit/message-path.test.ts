import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'

const root = path.resolve(import.meta.dirname, '../..')

test('every file that docs/architecture.md names on the path of a message exists', () => {
  const page = readFileSync(path.join(root, 'docs/architecture.md'), 'utf8')
  const [, section = ''] = page.split('### The files on the path of one message')
  const files = [...section.split('\n### ')[0]!.matchAll(/`([a-z]+\/src\/[a-z/-]+\.ts)`/g)].map(
    ([, file]) => file!,
  )
  expect(files.length).toBeGreaterThan(30)
  expect(files.filter((file) => !existsSync(path.join(root, 'packages', file)))).toEqual([])
})
