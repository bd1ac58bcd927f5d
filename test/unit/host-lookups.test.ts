import dns from 'node:dns'
import { afterEach, expect, test, vi } from 'vitest'
import { allowedAddresses } from '../../packages/webhook/src/publish/target.ts'

afterEach(() => void vi.restoreAllMocks())

const url = (host: string): URL => new URL(`https://${host}/hook`)

test('W7 a host is looked up once at a time, and again afterwards; each caller asks allow', async () => {
  const answers: ((addresses: dns.LookupAddress[]) => void)[] = []
  const lookup = vi
    .spyOn(dns.promises, 'lookup')
    .mockImplementation((() => new Promise((resolve) => answers.push(resolve))) as never)
  const first = allowedAddresses(url('a.example'), () => true)
  const second = allowedAddresses(url('a.example'), (_, address) => address === '192.0.2.2')
  const third = allowedAddresses(url('a.example'), () => false)
  const other = allowedAddresses(url('b.example'), () => true)
  const both = ['192.0.2.1', '192.0.2.2'].map((address) => ({ address, family: 4 }))
  for (const answer of answers) answer(both)
  expect(await first).toEqual(both)
  expect(await second).toEqual(both.slice(1))
  await expect(third).rejects.toThrow("the option 'allow' decides")
  expect(await other).toEqual(both)
  expect(lookup.mock.calls.map(([host]) => host)).toEqual(['a.example', 'b.example'])
  const later = allowedAddresses(url('a.example'), () => true)
  answers.at(-1)!(both.slice(0, 1))
  expect(await later).toEqual(both.slice(0, 1))
  expect(lookup).toHaveBeenCalledTimes(3)
})

test('W7 a lookup that fails fails for all who wait for it, and a later one is made again', async () => {
  const lookup = vi.spyOn(dns.promises, 'lookup').mockRejectedValueOnce(new Error('ENOTFOUND'))
  const both = [
    allowedAddresses(url('c.example'), () => true),
    allowedAddresses(url('c.example'), () => true),
  ]
  for (const each of both) await expect(each).rejects.toThrow('ENOTFOUND')
  expect(lookup).toHaveBeenCalledTimes(1)
  lookup.mockResolvedValueOnce([{ address: '192.0.2.1', family: 4 }] as never)
  expect(await allowedAddresses(url('c.example'), () => true)).toEqual([{ address: '192.0.2.1', family: 4 }])
})
