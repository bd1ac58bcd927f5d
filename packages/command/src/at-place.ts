import { visible } from './visible.ts'

/** The options that say which tables a command uses. */
export interface Place {
  readonly schema?: string
  readonly prefix?: string
}

/** Adapts the advice of the libraries to the options of the command. Without them, 'migrate' creates other tables. */
export function atPlace(text: string, { schema, prefix }: Place): string {
  const [flag, name] = schema === undefined ? ['--prefix', prefix] : ['--schema', schema]
  const migrate = name === undefined ? '$&' : `$& ${flag} ${quoted(name).replaceAll('$', '$$$$')}`
  return text
    .replaceAll(/,? or call migrate\(db\)/g, '')
    .replaceAll(/\{ (schema|prefix) \} to \w+\(\)/g, '--$1')
    .replaceAll('npx txbox migrate', migrate)
}

function quoted(name: string): string {
  return /^[\w.-]+$/.test(name) ? name : `"${visible(name).replaceAll(/["\\$`]/g, String.raw`\$&`)}"`
}
