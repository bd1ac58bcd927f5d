import type { Logger } from '@txbox/core'
import { loggedEvents, oneLine, reasonOf, type EventListeners } from '@txbox/core/internal'
import type { HttpRequest } from '../request/http-request.ts'
import type { IdempotencyEvents } from './idempotency.ts'

/** Routes that are remembered because they were warned of. Beyond, a route of a client's choice would fill the memory. */
const MAX_ROUTES = 1000

export interface RequestLog {
  readonly events: EventListeners<IdempotencyEvents>
  failed(error: unknown, request: HttpRequest): void
  /** Warns once for each route. */
  unscoped(request: HttpRequest): void
}

export function requestLog(logger: Logger | false | undefined): RequestLog {
  const logged = loggedEvents<IdempotencyEvents>(logger, {
    error({ error, ...about }) {
      const reason = reasonOf(error)
      const where = about.route === undefined ? '' : ` of ${about.method} ${oneLine(about.route, 200)}`
      return {
        level: 'error',
        object: { event: 'error', error: reason, ...about },
        text: `A request${where} was answered with an error: ${/[.!?…]$/.test(reason) ? reason : `${reason}.`}`,
        kind: 'error',
        failure: true,
      }
    },
  })
  const warned = new Set<string>()
  return {
    events: logged.events,
    failed: (error, request) =>
      logged.events.emit('error', { error, method: request.method, route: routeOf(request) }),
    unscoped(request) {
      const [{ method }, route] = [request, routeOf(request)]
      if (warned.has(`${method} ${route}`) || warned.size >= MAX_ROUTES) return
      warned.add(`${method} ${route}`)
      const text =
        `The requests of ${method} ${oneLine(route, 200)} show who sends them (authorization or a cookie), but createIdempotency ` +
        "has no option 'tenant': a user who sends another user's key and request gets the other user's response. Set 'tenant'."
      logged.write({ level: 'warn', object: { event: 'unscoped', method, route }, text, failure: true })
    },
  }
}

function routeOf({ route, path }: HttpRequest): string {
  return route ?? path.split('?', 1)[0]!
}
