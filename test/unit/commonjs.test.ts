import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const program = fileURLToPath(new URL('commonjs-program.cjs', import.meta.url))

test('a CommonJS program loads the packages by require', async () => {
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [program])
  expect({ stdout, stderr }).toEqual({ stdout: 'loaded\n', stderr: '' })
})
