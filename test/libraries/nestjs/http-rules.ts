// Controllers of NestJS with @Idempotent(), over both platforms. Decorators are applied as compiled code applies them.
import type { AddressInfo } from 'node:net'
import type * as Common from '@nestjs/common'
import type * as Core from '@nestjs/core'
import type { PoolClient } from 'pg'
import { describe } from 'vitest'
import type * as Plugin from '@txbox/idempotency-key/nest'
import { FORBIDDEN, frameworkRules, type Handle, type Reply } from '../../http/framework-rules.ts'
import { useOrders } from '../../http/http-under-test.ts'
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
      frameworkRules(world, async (shop, routes) => {
        const { common, core, plugin, platforms } = await load()
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
        await app.listen(0, '127.0.0.1')
        const { port } = (app.getHttpServer() as { address(): AddressInfo }).address()
        return { url: `http://127.0.0.1:${port}`, close: () => app.close() }
      })
    })
  }
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
