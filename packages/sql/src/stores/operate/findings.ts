import { InvalidOptionError, SchemaError } from '@txbox/core'
import type { Finding } from '@txbox/core/ports'

/** Returns a finding about one fact: `'ok'`, or `verdict` with advice. */
export function judged(
  check: string,
  found: string,
  bad: false | { readonly verdict: Finding['verdict']; readonly advice: string },
): Finding {
  return bad === false ? { check, verdict: 'ok', found } : { check, found, ...bad }
}

export function writableFinding(found: string, isReadOnly: boolean): Finding {
  return judged('writable', found, isReadOnly && { verdict: 'problem', advice: 'Connect to the primary.' })
}

/** `advice` is for SERIALIZABLE. */
export function isolationFinding(level: string, advice: string): Finding {
  const isStrict = level === 'serializable'
  return judged('isolation', `transactions are ${level} by default`, isStrict && { verdict: 'note', advice })
}

/** `advice` is for a server that may lose commits in a crash. */
export function durabilityFinding(found: string, isDurable: boolean, advice: string): Finding {
  const bad = { verdict: 'warning', advice: `A crash can lose confirmed commits. ${advice}` } as const
  return judged('durability', found, !isDurable && bad)
}

/** Returns the finding about long transactions that keep deleted rows in the tables. */
export function horizonFinding(
  check: string,
  fine: string,
  pinned: readonly string[],
  remedy: string,
): Finding {
  return listed(check, pinned, {
    fine,
    verdict: 'warning',
    separator: '; ',
    advice: `Rows that were deleted since then stay in the tables, and the relay becomes slower. ${remedy}`,
  })
}

export function listed(
  check: string,
  wrong: readonly string[],
  {
    fine,
    ...rest
  }: {
    /** The text for an empty list. */
    readonly fine: string
    readonly verdict: Finding['verdict']
    readonly advice: string
    /** The text before the list. */
    readonly prefix?: string
    /** @default ', ' */
    readonly separator?: string
  },
): Finding {
  const { verdict, advice, prefix = '', separator = ', ' } = rest
  if (wrong.length === 0) return { check, verdict: 'ok', found: fine }
  return { check, verdict, found: prefix + wrong.join(separator), advice }
}

/** Returns a finding instead of the error that a table does not exist. The table of migrations says that it was created. */
export async function orDropped(find: () => Promise<readonly Finding[]>): Promise<readonly Finding[]> {
  try {
    return await find()
  } catch (error) {
    if (!(error instanceof SchemaError)) throw error
    return [
      {
        check: 'dropped',
        verdict: 'problem',
        found:
          'the table of migrations is there, but other tables of txbox are gone: something has dropped them',
        advice:
          "Let the schema tool of your ORM leave the tables of txbox alone, and create them again with the SQL of 'npx txbox migrate --print'.",
      },
    ]
  }
}

/** `check` throws if the revision is wrong, or the server is unsupported. */
export async function revisionFinding(check: () => Promise<unknown>): Promise<Finding> {
  try {
    await check()
    return { check: 'revision', verdict: 'ok', found: 'the tables have the right revision' }
  } catch (error) {
    if (!(error instanceof SchemaError || error instanceof InvalidOptionError)) throw error
    const later = error.message.includes('Upgrade the package')
    return {
      check: 'revision',
      verdict: 'problem',
      found: error.message.startsWith('The tables') ? error.message : 'the tables of txbox do not exist here',
      advice: later ? 'Upgrade txbox.' : "Run 'npx txbox migrate'.",
    }
  }
}
