import type { Publisher } from '@txbox/relay'

/** Returns a publisher with some members changed. All others are those of the publisher, whatever members publishers get. */
export function forwarding(publisher: Publisher, changes: Partial<Publisher>): Publisher {
  return new Proxy({} as Publisher, {
    get(_, name): unknown {
      if (Object.hasOwn(changes, name)) return Reflect.get(changes, name)
      const member: unknown = Reflect.get(publisher, name)
      return typeof member === 'function' ? (member.bind(publisher) as unknown) : member
    },
    has: (_, name) => Object.hasOwn(changes, name) || Reflect.has(publisher, name),
  })
}
