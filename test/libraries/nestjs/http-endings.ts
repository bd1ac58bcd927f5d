// When a handler of NestJS has ended, as interceptors around @Idempotent() and handlers that send by themselves see it.
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type * as Common from '@nestjs/common'
import type { PoolClient } from 'pg'
import { catchError, take, tap, throwError, timeout, type Observable } from 'rxjs'
import { expect, onTestFinished, test } from 'vitest'
import { send, type Shop, type useOrders } from '../../http/http-under-test.ts'
import type { Nest } from './http-rules.ts'

/** What responses of both platforms have. */
interface Sending {
  status(status: number): Sending
  header(name: string, value: string): Sending
  send(body: unknown): unknown
}

type Handler = (tx: PoolClient, about: { signal: AbortSignal }, response: Sending) => unknown
type Outer = (handled: Observable<unknown>) => Observable<unknown>

export function nestEndings(
  world: ReturnType<typeof useOrders>,
  load: () => Promise<Nest>,
  platform: string,
): void {
  /** A server with one route, whose handler sends its response by itself if it `sends`. */
  async function served(
    handler: Handler,
    { outer = (handled) => handled, sends = false }: { outer?: Outer; sends?: boolean },
    shop: Shop,
  ): Promise<string> {
    const { common, core, plugin, platforms } = await load()
    class OrdersController {
      order(...given: Parameters<Handler>): unknown {
        return handler(...given)
      }
    }
    const { prototype } = OrdersController
    plugin.IdempotentTx()(prototype, 'order', 0)
    plugin.IdempotentRequest()(prototype, 'order', 1)
    common.Res({ passthrough: !sends })(prototype, 'order', 2)
    const descriptor = Object.getOwnPropertyDescriptor(prototype, 'order')!
    for (const decorator of [common.Post('order'), plugin.Idempotent()])
      decorator(prototype, 'order', descriptor)
    common.Controller()(OrdersController)
    // oxlint-disable-next-line typescript/no-extraneous-class -- a module of NestJS is a class.
    class AppModule {}
    common.Module({
      imports: [plugin.IdempotencyModule.forRoot({ idempotency: shop.idempotency as never })],
      controllers: [OrdersController],
    })(AppModule)
    const app = await core.NestFactory.create(AppModule, (await platforms[platform]!()) as never, {
      logger: false,
    })
    app.useGlobalInterceptors({
      intercept: (_, next: Common.CallHandler) => outer(next.handle() as never) as never,
    })
    onTestFinished(() => app.close())
    await app.listen(0, '127.0.0.1')
    const { port } = (app.getHttpServer() as { address(): AddressInfo }).address()
    return `http://127.0.0.1:${port}/order`
  }

  test('H13 an interceptor that gives up the handler rolls back at once, and what the handler does later changes nothing', async () => {
    const shop = world.create()
    const { common } = await load()
    const gate = Promise.withResolvers<void>()
    const late: Promise<unknown>[] = []
    let signal: AbortSignal | undefined
    const outer: Outer = (handled) =>
      handled.pipe(
        timeout(300),
        catchError(() => throwError(() => new common.RequestTimeoutException())),
      )
    const url = await served(
      async (tx, about) => {
        signal ??= about.signal
        const order = await shop.order(tx, 'A1')
        if (order > 1) return { order }
        const later = gate.promise.then(() => shop.order(tx, 'B2'))
        late.push(Promise.allSettled([later]))
        return later
      },
      { outer },
      shop,
    )
    const given = await send(url)
    expect([given.status, given.isReplayed, signal?.aborted]).toEqual([408, false, true])
    expect(await shop.orders()).toBe(0)
    await shop.idle()
    gate.resolve()
    await Promise.all(late)
    const next = await send(url)
    expect([next.status, next.isReplayed, await shop.orders()]).toEqual([201, false, 1])
    expect(shop.errors).toEqual([])
  })

  test('an interceptor that takes the first value does not give up the handler', async () => {
    const shop = world.create()
    const url = await served(
      async (tx) => ({ order: await shop.order(tx, 'A1') }),
      { outer: (handled) => handled.pipe(take(1)) },
      shop,
    )
    for (const isReplayed of [false, true]) {
      const response = await send(url)
      expect([response.status, response.text, response.isReplayed]).toEqual([201, '{"order":1}', isReplayed])
    }
    expect(await shop.orders()).toBe(1)
  })

  test('interceptors around a replay see a value and its end, and cannot change the response', async () => {
    const shop = world.create()
    const seen: string[] = []
    const next = (): void => void seen.push('value')
    const complete = (): void => void seen.push('end')
    const error = (): void => void seen.push('error')
    const url = await served(
      async (tx) => ({ order: await shop.order(tx, 'A1') }),
      { outer: (handled) => handled.pipe(tap({ next, complete, error })) },
      shop,
    )
    for (const isReplayed of [false, true]) {
      const response = await send(url)
      expect([response.status, response.text, response.isReplayed]).toEqual([201, '{"order":1}', isReplayed])
    }
    expect(seen).toEqual(['value', 'end', 'value', 'end'])
  })

  test('H3 a result that cannot be serialized leaves nothing, and holds no transaction', async () => {
    const shop = world.create()
    const url = await served(async (tx) => ({ n: BigInt(await shop.order(tx, 'A1')) }), {}, shop)
    for (let attempt = 1; attempt <= 2; attempt++) {
      const response = await send(url)
      expect([response.status, response.isReplayed]).toEqual([500, false])
      expect([shop.calls, await shop.orders(), await shop.transactions()]).toEqual([attempt, 0, 0])
    }
  })

  test('H2 H3 COMMIT waits for a handler that has sent its response by itself, and a failure then is the response', async () => {
    const shop = world.create()
    const url = await served(
      async (tx, _, response) => {
        const order = await shop.order(tx, 'A1')
        response.status(202).header('x-order', String(order)).send({ order })
        await sleep(50)
        await shop.order(tx, 'B2')
        if (order === 1) throw new Error('too late')
      },
      { sends: true },
      shop,
    )
    const failed = await send(url)
    expect([failed.status, failed.text.includes('"order"')]).toEqual([500, false])
    expect([await shop.orders(), await shop.transactions()]).toEqual([0, 0])
    for (const isReplayed of [false, true]) {
      const response = await send(url)
      expect([response.status, response.text, response.isReplayed]).toEqual([202, '{"order":3}', isReplayed])
      expect(await shop.orders()).toBe(2)
    }
  })
}
