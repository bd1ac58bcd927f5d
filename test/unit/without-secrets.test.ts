import { afterEach, describe, expect, it } from 'vitest'
import { withoutSecrets } from '../../packages/command/src/without-secrets.ts'

const { argv } = process
const { DATABASE_URL: databaseUrl } = process.env

afterEach(() => {
  process.argv = argv
  if (databaseUrl === undefined) delete process.env['DATABASE_URL']
  else process.env['DATABASE_URL'] = databaseUrl
})

describe('withoutSecrets', () => {
  it.each([
    ['cannot reach postgres://app:hunter2@db:5432/shop', 'cannot reach postgres://…@db:5432/shop'],
    ["url 'amqps://u:p@ss@broker/v' refused", "url 'amqps://…@broker/v' refused"],
    ['first mysql://a:b@one, then mysql://c:d@two', 'first mysql://…@one, then mysql://…@two'],
    ['--url=postgres://app:hunter2@db', '--url=postgres://…@db'],
    ['password=hunter2&token=t1 stays out', 'password=…&token=… stays out'],
  ])('hides what is secret in %s', (text, safe) => {
    expect(withoutSecrets(text)).toBe(safe)
  })

  it.each(['postgres://db/shop', 'ada@example.org', '@txbox/cli', '://@'])('leaves %s as it is', (text) => {
    expect(withoutSecrets(text)).toBe(text)
  })

  it('hides a URL of the environment whose secret is a parameter', () => {
    process.env['DATABASE_URL'] = 'postgres://db/shop?user=app&password=hunter 2'
    expect(withoutSecrets('cannot use postgres://db/shop?user=app&password=hunter 2')).toBe(
      'cannot use postgres://…',
    )
  })

  it('needs no more than a moment for 200,000 characters, whatever they are', () => {
    for (const text of [
      'a'.repeat(200_000),
      'a:/'.repeat(70_000),
      'a://'.repeat(50_000),
      'a@'.repeat(100_000),
    ]) {
      const start = process.cpuUsage()
      withoutSecrets(text)
      const { user, system } = process.cpuUsage(start)
      expect((user + system) / 1_000).toBeLessThan(500)
    }
  })
})
