// Controllers of NestJS with @Idempotent(), over both platforms. Decorators are applied as compiled code applies them.
import type { AddressInfo } from 'node:net'
import type * as Common from '@nestjs/common'
import type * as Core from '@nestjs/core'
import type { PoolClient } from 'pg'
import { describe } from 'vitest'
import type * as Plugin from '@txbox/idempotency-key/nest'
import type { RequestContext } from '@txbox/idempotency-key'
import {
  FORBIDDEN,
  frameworkRules,
  type Handle,
  type Reply,
  type Served,
} from '../../http/framework-rules.ts'
import { useOrders, type Shop } from '../../http/http-under-test.ts'
import { LEASE, leasedRules } from '../../http/leased-rules.ts'
import { nestEndings } from './http-endings.ts'

/** One version of NestJS, with the plug-in that has loaded it. */
export interface Nest {
  readonly common: typeof Common
  readonly core: typeof Core
  readonly plugin: typeof Plugin
  readonly platforms: Readonly<Record<string, () => Promise<unknown>>>
}

export function nestRules(load: () => Promise<Nest>): void {
  const world = useOrders()
  for (const platform of ['express', 'fastify']) {
    describe(platform, () => {
      nestEndings(world, load, platform)
      leasedRules(world, async (shop, charge) => {
        const nest = await load()
        const { common, plugin } = nest
        class ChargesController {
          async charge(about: RequestContext, body: unknown, response: Settable): Promise<unknown> {
            return written(response, await failingAsNest(common, () => charge(about, body)), common)
          }
        }
        const { prototype } = ChargesController
        plugin.IdempotentRequest()(prototype, 'charge', 0)
        common.Body()(prototype, 'charge', 1)
        common.Res({ passthrough: true })(prototype, 'charge', 2)
        const descriptor = Object.getOwnPropertyDescriptor(prototype, 'charge')!
        for (const decorator of [common.Post('charge'), plugin.Idempotent(LEASE)]) {
          decorator(prototype, 'charge', descriptor)
        }
        return servedNest(nest, platform, shop, ChargesController)
      })
      frameworkRules(world, async (shop, routes) => {
        const nest = await load()
        const { common, plugin } = nest
        class OrdersController {
          async read(): Promise<unknown> {
            return { read: true }
          }
        }
        const { prototype } = OrdersController
        class Guard {
          canActivate(context: Common.ExecutionContext): boolean {
            const request = context.switchToHttp().getRequest<{ headers: Record<string, string> }>()
            return request.headers[FORBIDDEN] === undefined
          }
        }
        const define = (name: string, verb: MethodDecorator): void => {
          const descriptor = Object.getOwnPropertyDescriptor(prototype, name)!
          for (const decorator of [verb, common.UseGuards(Guard), plugin.Idempotent()]) {
            decorator(prototype, name, descriptor)
          }
        }
        for (const [name, handle] of Object.entries(routes) as [string, Handle][]) {
          Object.defineProperty(prototype, name, {
            configurable: true,
            writable: true,
            value: async (tx: PoolClient, body: unknown, response: Settable): Promise<unknown> =>
              written(response, await failingAsNest(common, () => handle(tx, body)), common),
          })
          plugin.IdempotentTx()(prototype, name, 0)
          common.Body()(prototype, name, 1)
          common.Res({ passthrough: true })(prototype, name, 2)
          define(name, common.Post(name))
        }
        define('read', common.Get('read'))
        return servedNest(nest, platform, shop, OrdersController)
      })
    })
  }
}

/** A server with one controller. */
async function servedNest(
  { common, core, plugin, platforms }: Nest,
  platform: string,
  shop: Shop,
  controller: new () => object,
): Promise<Served> {
  common.Controller()(controller)
  // oxlint-disable-next-line typescript/no-extraneous-class -- a module of NestJS is a class.
  class AppModule {}
  common.Module({
    imports: [plugin.IdempotencyModule.forRoot({ idempotency: shop.idempotency as never })],
    controllers: [controller],
  })(AppModule)
  const app = await core.NestFactory.create(AppModule, (await platforms[platform]!()) as never, {
    logger: false,
  })
  await app.listen(0, '127.0.0.1')
  const { port } = (app.getHttpServer() as { address(): AddressInfo }).address()
  return { url: `http://127.0.0.1:${port}`, close: () => app.close() }
}

/** What responses of both platforms have. */
interface Settable {
  status(status: number): unknown
  header(name: string, value: string): unknown
}

function written(
  response: Settable,
  { status, headers = {}, json, bytes }: Reply,
  { StreamableFile }: Nest['common'],
): unknown {
  response.status(status)
  for (const [name, value] of Object.entries(headers)) response.header(name, value)
  return bytes === undefined
    ? json
    : new StreamableFile(
        bytes,
        headers['content-type'] === undefined ? {} : { type: headers['content-type'] },
      )
}

async function failingAsNest(
  { HttpException }: Nest['common'],
  handle: () => Promise<Reply>,
): Promise<Reply> {
  try {
    return await handle()
  } catch (error) {
    const { status } = error as { status?: number }
    throw status === undefined ? error : new HttpException('sold out', status)
  }
}
