import {
  Inject,
  Injectable,
  Module,
  UseInterceptors,
  createParamDecorator,
  type CallHandler,
  type DynamicModule,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common'
import { EMPTY, catchError, throwError, type Observable } from 'rxjs'
import { InvalidOptionError } from '@txbox/core'
import { propertyOf } from '@txbox/core/internal'
import { openBridge, type BridgedRequest } from './bridge.ts'
import type { Idempotency } from '../handle/idempotency.ts'
import { holdReply, requestOfReply } from './nest-fastify.ts'
import { holdResponse } from './held-response.ts'
import { nodeRequest } from './node-request.ts'
import { runnerOf } from '../handle/runner-of.ts'

const IDEMPOTENCY = Symbol.for('txbox.idempotency')
/** The property of a request that has its transaction. */
const BRIDGED = Symbol.for('txbox.idempotency.request')

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
      ? requestOfReply(request as never)
      : await nodeRequest(request as never, runner.settings)
    const bridge = await openBridge(runner, taken)
    const { maxBytes } = runner.settings.form
    if (isFastify) holdReply(response as never, bridge, maxBytes)
    else holdResponse(response as never, bridge, maxBytes)
    // What NestJS sends of nothing is replaced by the answer.
    if (bridge.handled === undefined) return EMPTY
    Object.assign(request, { [BRIDGED]: bridge.handled })
    const failed = (error: unknown): Observable<never> => {
      bridge.fail(error)
      return throwError(() => error)
    }
    return next.handle().pipe(catchError(failed))
  }
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
 * guards come before; what a pipe refuses is not stored.
 */
export function Idempotent(): MethodDecorator {
  return UseInterceptors(IdempotencyInterceptor)
}

/** A parameter of a handler with `@Idempotent()`: the transaction that commits with the response. */
export const IdempotentTx: () => ParameterDecorator = createParamDecorator(
  (_: unknown, context: ExecutionContext) => bridgedIn(context).tx,
)

/** A parameter of a handler with `@Idempotent()`: the key, the idempotency key for other systems, and the signal. */
export const IdempotentRequest: () => ParameterDecorator = createParamDecorator(
  (_: unknown, context: ExecutionContext) => bridgedIn(context),
)

function bridgedIn(context: ExecutionContext): BridgedRequest {
  const bridged = propertyOf(context.switchToHttp().getRequest<object>(), BRIDGED)
  if (bridged !== undefined) return bridged as BridgedRequest
  throw new InvalidOptionError('The handler has no transaction. Decorate the handler with @Idempotent().')
}
