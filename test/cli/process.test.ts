import { expect, test } from 'vitest'
import { spawnTxbox } from './run-txbox.ts'
import { useShop } from './use-shop.ts'

const shop = useShop()

/** Other tests run the command in their own process, which does not end when the command does. */
test.for([
  ['migrate'],
  ['relay', '--publisher', 'stdout:', '--drain'],
  ['gc'],
  ['status'],
  ['dead-letters', 'list'],
  ['doctor', '--publisher', 'stdout:'],
])('the process of %j ends by itself, with exit code 0 and without a warning of Node.js', async (args) => {
  const { code, stderr } = await spawnTxbox(args, { DATABASE_URL: shop.url })
  expect(code).toBe(0)
  expect(stderr.split('\n').filter((line) => line !== '' && !/^\S+ info {2}/.test(line))).toEqual([])
})

test.for([
  ['migrate', '--database', 'postgres://u:secret@127.0.0.1:1/d'],
  ['gc', '--interval-ms', '10'],
  ['dead-letters', 'redrive', '--yes'],
])('the process of %j fails with an exit code, and one line', async (args) => {
  const { code, stdout, stderr } = await spawnTxbox(args, { DATABASE_URL: shop.url })
  expect([code, stdout]).toEqual([args[0] === 'migrate' ? 1 : 2, ''])
  expect(stderr).toMatch(/^txbox: .*\n$/)
})
