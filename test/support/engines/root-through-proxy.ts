import { onTestFinished } from 'vitest'
import { Proxy } from '../worlds/proxy.ts'
import type { HandleKind, Root, Target } from './target.ts'

/** A root that connects through a proxy, such as for counting round trips. Both are closed after the test. */
export async function rootThroughProxy(
  target: Target,
  kind: HandleKind,
): Promise<{ readonly proxy: Proxy; readonly through: Root }> {
  const proxy = await Proxy.to(target.address())
  const through = target.open(kind, { through: proxy })
  await through.ready?.()
  onTestFinished(async () => {
    await through.close()
    await proxy.close()
  })
  return { proxy, through }
}
