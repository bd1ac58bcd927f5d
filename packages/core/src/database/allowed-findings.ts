import type { Finding } from '../ports/inspection-store.ts'
import { isCausedBy } from '../errors/causes.ts'
import { propertyOf } from '../errors/property-of.ts'
import { reasonOf } from '../errors/reason-of.ts'

const NO_PRIVILEGE: ReadonlySet<unknown> = new Set([
  '42501',
  'ER_TABLEACCESS_DENIED_ERROR',
  'ER_COLUMNACCESS_DENIED_ERROR',
])

/**
 * Returns findings, or one finding about the privileges that they need, so that a user with few privileges still gets the
 * other findings.
 */
export async function allowedFindings(
  check: string,
  find: () => Promise<readonly Finding[]>,
): Promise<readonly Finding[]> {
  try {
    return await find()
  } catch (error) {
    if (!isCausedBy(error, (at) => NO_PRIVILEGE.has(propertyOf(at, 'code')))) throw error
    const advice =
      'Grant the user the privileges of the role txbox_viewer, which docs/privileges of txbox lists, or connect as the owner ' +
      'of the tables.'
    return [{ check, verdict: 'problem', found: reasonOf(error), advice }]
  }
}
