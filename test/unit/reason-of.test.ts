import { createServer } from 'node:net'
import { once } from 'node:events'
import { describe, expect, test } from 'vitest'
import { oneLine, reasonOf } from '@txbox/core/internal'

describe('reasonOf', () => {
  test('names the causes of an error', () => {
    const cause = new Error('connect ECONNREFUSED 127.0.0.1:9')
    expect(reasonOf(new TypeError('fetch failed', { cause }))).toBe(
      'fetch failed: connect ECONNREFUSED 127.0.0.1:9',
    )
    expect(reasonOf(new Error('The relay stands still.', { cause: 'no route' }))).toBe(
      'The relay stands still: no route',
    )
  })

  test('says why a real fetch failed', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as { port: number }
    server.close()
    await once(server, 'close')
    const error: unknown = await fetch(`http://127.0.0.1:${port}/`).catch((error: unknown) => error)
    expect(reasonOf(error)).toBe(`fetch failed: connect ECONNREFUSED 127.0.0.1:${port}`)
  })

  test('lists each distinct answer of the addresses of a host once, and at most five', () => {
    const cause = new AggregateError(
      [new Error('connect ECONNREFUSED ::1:9'), new Error('connect ECONNREFUSED 127.0.0.1:9')],
      '',
    )
    expect(reasonOf(new TypeError('fetch failed', { cause }))).toBe(
      'fetch failed: connect ECONNREFUSED ::1:9; connect ECONNREFUSED 127.0.0.1:9',
    )
    expect(reasonOf(new AggregateError([new Error('away'), new Error('away')], 'all'))).toBe('all: away')
    const many = Array.from({ length: 1000 }, (_, index) => new Error(`no. ${index}`))
    expect(reasonOf(new AggregateError(many))).toBe('no. 0; no. 1; no. 2; no. 3; no. 4')
  })

  test('does not repeat a cause that the message has named', () => {
    const deepest = new Error('refused')
    const cause = new Error('connect', { cause: deepest })
    expect(reasonOf(new Error('no answer: connect', { cause }))).toBe('no answer: connect: refused')
  })

  test('follows seven levels of causes, and ends with a circular chain', () => {
    let error = new Error('level 9')
    for (const level of [8, 7, 6, 5, 4, 3, 2, 1, 0]) error = new Error(`level ${level}`, { cause: error })
    expect(reasonOf(error)).toBe(Array.from({ length: 8 }, (_, level) => `level ${level}`).join(': '))
    const circle = new Error('round')
    circle.cause = new AggregateError([circle, circle], 'and round')
    expect(reasonOf(circle)).toBe('round: and round')
  })

  test('finds what a server has said below several causes and lists of errors', () => {
    const said = new AggregateError([new Error('SASL authentication failed')], 'Received response with error')
    const login = new Error('Authentication failed.', { cause: said })
    const closed = new Error('Connection closed', {
      cause: new AggregateError([login], 'Cannot connect to a broker.'),
    })
    expect(reasonOf(new AggregateError([closed], 'Cannot publish'))).toBe(
      'Cannot publish: Connection closed: Cannot connect to a broker: Authentication failed: Received response with error: ' +
        'SASL authentication failed',
    )
  })

  test('reads at most 50 errors, the nearest ones, however many there are', () => {
    let read = 0
    class Endless extends AggregateError {
      readonly place: string

      constructor(place: string) {
        super([], `at ${place}`)
        this.place = place
      }

      override get cause(): unknown {
        read += 1
        return new Endless(`${this.place}.c`)
      }
    }
    const wide = (place: string): Endless =>
      Object.defineProperty(new Endless(place), 'errors', {
        get: () => Array.from({ length: 9 }, (_, n) => wide(`${place}.${n}`)),
      })
    const reason = reasonOf(wide('0'), 100_000)
    expect(reason.match(/at /g)).toHaveLength(50)
    for (const place of ['at 0.c', 'at 0.4', 'at 0.4.c', 'at 0.4.4']) expect(reason).toContain(place)
    expect(read).toBeLessThanOrEqual(50)
  })

  test('describes any thrown value', () => {
    expect(reasonOf('text')).toBe('text')
    expect(reasonOf(undefined)).toBe('undefined')
    expect(reasonOf(null)).toBe('null')
    expect(reasonOf(7)).toBe('7')
    expect(reasonOf(Symbol('s'))).toBe('a symbol')
    expect(reasonOf({ status: 503 })).toBe('an object')
    expect(reasonOf({ message: 'a message' })).toBe('a message')
    expect(reasonOf(Object.assign(new Error(''), { code: 'ECONNRESET' }))).toBe('ECONNRESET')
    expect(reasonOf(new RangeError(''))).toBe('RangeError')
    expect(reasonOf('')).toBe('an empty string')
  })

  test('survives properties that throw', () => {
    const hostile = new Proxy(new Error('hidden'), {
      get() {
        throw new Error('no')
      },
      getPrototypeOf() {
        throw new Error('no')
      },
    })
    expect(reasonOf(hostile)).toBe('an object')
    expect(reasonOf(new Error('outside', { cause: hostile }))).toBe('outside: an object')
    const errors = new Proxy([], {
      get() {
        throw new Error('no')
      },
    })
    expect(reasonOf(Object.assign(new Error('list'), { errors }))).toBe('list')
  })

  test('shows no password of a URL', () => {
    expect(reasonOf(new Error('cannot reach amqp://user:secret@host:5672/v'))).toBe(
      'cannot reach amqp://user:***@host:5672/v',
    )
    expect(reasonOf(new Error('out', { cause: new Error('at redis://:s/ec@r?et#@host') }))).toBe(
      'out: at redis://:***@host',
    )
    expect(reasonOf(new Error('POST http://host:8080/@scope/mail?to=a@b failed'))).toBe(
      'POST http://host:8080/@scope/mail?to=a@b failed',
    )
    expect(reasonOf(new Error('at http://[::1]:80/@a'))).toBe('at http://[::1]:80/@a')
    const long = `amqp://user:${'secret'.repeat(1000)}@host`
    expect(reasonOf(new Error(long))).not.toContain('secret')
    expect(reasonOf(new Error(`${'x '.repeat(995)}${long}`))).not.toContain('secret')
  })

  test('shows no secret in the query of a URL', () => {
    expect(reasonOf(new Error('at postgres://db/shop?user=app&password=s3cret&ssl=1#x'))).toBe(
      'at postgres://db/shop?user=app&password=***&ssl=1#x',
    )
    expect(reasonOf(new Error('GET https://host/?Token=a/b@c then ?pwd=b&SECRET=c&passwd= failed'))).toBe(
      'GET https://host/?Token=*** then ?pwd=***&SECRET=***&passwd=*** failed',
    )
    expect(reasonOf(new Error('at https://host/?tokens=3&page=2, and token=4'))).toBe(
      'at https://host/?tokens=3&page=2, and token=4',
    )
    const long = `https://host/?token=${'secret'.repeat(1000)}`
    expect(reasonOf(new Error(`${'x '.repeat(980)}${long}`))).not.toContain('secret')
    expect(reasonOf(new Error(`x ${'?token='.repeat(1_000_000)}`))).toBe('x ?token=***')
  })

  test('is bounded, and quick for text of any length', () => {
    expect(reasonOf(new Error('x'.repeat(10_000_000)))).toBe(`${'x'.repeat(1999)}…`)
    expect(reasonOf(new Error('x'.repeat(300)), 100)).toHaveLength(100)
    expect(reasonOf(new Error('://a:'.repeat(1_000_000)))).toBe('://a:***')
    const cause = new Error('y'.repeat(5000))
    expect(reasonOf(new Error('x'.repeat(1500), { cause }))).toHaveLength(2000)
    const errors = Array.from({ length: 5 }, (_, n) => new Error(`${n}`.repeat(1_000_000), { cause }))
    expect(reasonOf(new AggregateError(errors, 'x'.repeat(1_000_000)))).toHaveLength(2000)
    expect(reasonOf(new AggregateError(errors, 'all'), 300)).toHaveLength(300)
  })

  test('can be stored and shown: one line, no NUL, well-formed', () => {
    expect(reasonOf(new Error('a\0b \u001B[31mred\r\n\tnext\u2028line \uD800 end'))).toBe(
      String.raw`a\u0000b \u001b[31mred next line ` + '\uFFFD end',
    )
    expect(reasonOf(Object.assign(new Error(''), { code: 'a\0' }))).toBe(String.raw`a\u0000`)
  })
})

describe('oneLine', () => {
  test('truncates text between characters', () => {
    expect(oneLine('short')).toBe('short')
    expect(oneLine('x'.repeat(200))).toBe('x'.repeat(200))
    expect(oneLine('x'.repeat(201))).toBe(`${'x'.repeat(199)}…`)
    expect(oneLine(`${'x'.repeat(198)}😀${'x'.repeat(9)}`)).toBe(`${'x'.repeat(198)}…`)
    expect(oneLine(`a${' '.repeat(1000)}b`)).toBe('a…')
    expect(oneLine('\0'.repeat(1000), 20)).toBe(String.raw`\u0000\u0000\u0000\…`)
  })

  test('escapes characters that change the direction of text', () => {
    expect(oneLine('a\u202Eb')).toBe(String.raw`a\u202eb`)
  })
})
