import {
  Inject,
  Injectable,
  Module,
  SetMetadata,
  UseInterceptors,
  createParamDecorator,
  type CallHandler,
  type DynamicModule,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common'
import { finalize, of, takeLast, tap, type Observable } from 'rxjs'
import { InvalidOptionError } from '@txbox/core'
import { propertyOf } from '@txbox/core/internal'
import { openBridge, type Bridge, type BridgedRequest, type HeldHandler } from './bridge.ts'
import type { Idempotency } from '../handle/idempotency.ts'
import { requestOf } from './fastify-request.ts'
import { holdResponse } from './nest-express.ts'
import { holdReply } from './nest-fastify.ts'
import { nodeRequest } from './node-request.ts'
import { leaseOption, type LeaseOptions } from '../handle/lease-option.ts'
import { runnerOf } from '../handle/runner-of.ts'

const IDEMPOTENCY = Symbol.for('txbox.idempotency')
/** The property of a request that has its transaction. */
const BRIDGED = Symbol.for('txbox.idempotency.request')

/** Metadata of handlers with `@Idempotent({ leaseMs })`: like that of guards, it is copied by a decorator that replaces the method. */
const LEASE = 'txbox.idempotency.lease'

/** Answers requests in handlers with `@Idempotent()`: after the guards, before the pipes. */
class IdempotencyInterceptor implements NestInterceptor {
  readonly #idempotency: Idempotency<unknown>

  constructor(idempotency: Idempotency<unknown>) {
    this.#idempotency = idempotency
  }

  async intercept(context: ExecutionContext, next: CallHandler): Promise<Observable<unknown>> {
    const runner = runnerOf('@Idempotent', this.#idempotency)
    const [request, response] = [
      context.switchToHttp().getRequest<object>(),
      context.switchToHttp().getResponse<object>(),
    ]
    const isFastify = typeof propertyOf(response, 'serialize') === 'function'
    const taken = isFastify
      ? requestOf(request as never)
      : await nodeRequest(request as never, runner.settings)
    const bridge = await openBridge(runner, taken, leaseOf(context.getHandler()))
    const { maxBytes } = runner.settings.form
    const held = (isFastify ? holdReply : holdResponse)(response as never, bridge, maxBytes)
    if (bridge.handled === undefined) {
      held.end()
      // What the other interceptors and NestJS make of nothing is replaced by the answer.
      return of(undefined)
    }
    Object.assign(request, { [BRIDGED]: bridge.handled })
    return watched(next.handle(), bridge, held)
  }
}

/** Tells when the handler has ended, has failed, or is given up by an interceptor around this one. */
function watched(handled: Observable<unknown>, bridge: Bridge, held: HeldHandler): Observable<unknown> {
  let hasEnded = false
  const complete = (): void => {
    hasEnded = true
    held.end()
  }
  const error = (failure: unknown): void => {
    hasEnded = true
    bridge.fail(failure)
    held.fail()
  }
  return handled.pipe(
    tap({ complete, error }),
    // Who takes the first value and no more does not give up the handler: the value comes when the handler has ended.
    takeLast(1),
    finalize(() => {
      if (hasEnded) return
      bridge.giveUp(
        new Error(
          'An interceptor has given up the handler. Its transaction is rolled back, or its lease released.',
        ),
      )
      held.fail()
    }),
  )
}

Injectable()(IdempotencyInterceptor)
Inject(IDEMPOTENCY)(IdempotencyInterceptor, undefined, 0)

/** Makes `@Idempotent()` available in all modules: `imports: [IdempotencyModule.forRoot({ idempotency })]`. */
// oxlint-disable-next-line typescript/no-extraneous-class -- a dynamic module of NestJS is a class.
export class IdempotencyModule {
  /** @throws {InvalidOptionError} when the option `idempotency` is not the result of `createIdempotency`. */
  static forRoot({ idempotency }: { readonly idempotency: Idempotency<never> }): DynamicModule {
    runnerOf('IdempotencyModule', idempotency)
    const provider = { provide: IDEMPOTENCY, useValue: idempotency }
    return { module: IdempotencyModule, global: true, providers: [provider], exports: [provider] }
  }
}

Module({})(IdempotencyModule)

/**
 * Decorates a handler of a controller of NestJS 11 or 12, over Express or Fastify: each of its requests is handled once. The
 * guards come before; what a pipe refuses is not stored. The handler is called once, so that a conflict in the database is a 503.
 * An interceptor around this one that gives up the handler rolls back, and aborts the handler's signal.
 *
 * With `{ leaseMs }`, the handler runs without a transaction under a lease, as `idempotency.handleLeased` says.
 *
 * @throws {InvalidOptionError} for a wrong option.
 */
export function Idempotent(options?: LeaseOptions): MethodDecorator {
  const intercepted = UseInterceptors(IdempotencyInterceptor)
  if (options === undefined) return intercepted
  const leaseMs = leaseOption('@Idempotent', options)
  const leased = SetMetadata(LEASE, leaseMs)
  return (target, name, descriptor) => {
    leased(target, name, descriptor)
    return intercepted(target, name, descriptor)
  }
}

function leaseOf(handler: object): number | undefined {
  // A part of reflect-metadata, without which NestJS does not start.
  const metadata = Reflect as unknown as { getMetadata(key: string, of: object): unknown }
  const leaseMs = metadata.getMetadata(LEASE, handler)
  return typeof leaseMs === 'number' ? leaseMs : undefined
}

/**
 * A parameter of a handler with `@Idempotent()`: the transaction that commits with the response.
 *
 * @throws {InvalidOptionError} at a request, when the handler has no `@Idempotent()`, or has a lease.
 */
export const IdempotentTx: () => ParameterDecorator = createParamDecorator(
  (_: unknown, context: ExecutionContext) => {
    const { tx } = bridgedIn(context)
    if (tx !== undefined) return tx
    throw new InvalidOptionError(
      'The handler runs under a lease, and has no transaction: remove @IdempotentTx().',
    )
  },
)

/**
 * A parameter of a handler with `@Idempotent()`: the key, the idempotency key for other systems, and the signal.
 *
 * @throws {InvalidOptionError} at a request, when the handler has no `@Idempotent()`.
 */
export const IdempotentRequest: () => ParameterDecorator = createParamDecorator(
  (_: unknown, context: ExecutionContext) => bridgedIn(context),
)

function bridgedIn(context: ExecutionContext): BridgedRequest {
  const bridged = propertyOf(context.switchToHttp().getRequest<object>(), BRIDGED)
  if (bridged !== undefined) return bridged as BridgedRequest
  throw new InvalidOptionError('The handler has no transaction. Decorate the handler with @Idempotent().')
}
