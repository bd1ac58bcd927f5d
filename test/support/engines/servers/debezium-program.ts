import path from 'node:path'
import { isProgram } from './is-program.ts'

/**
 * The command that `TXBOX_TEST_DEBEZIUM` names. It runs one connector in Kafka Connect: `start FILE.properties KAFKA`,
 * `kill` and `stop`. It keeps its state in the folder `DEBEZIUM_HOME`, and serves Connect's REST interface at the port
 * `DEBEZIUM_PORT`.
 */
export function findDebeziumProgram(): string | undefined {
  const named = process.env['TXBOX_TEST_DEBEZIUM']
  if (named === undefined || named === '') return undefined
  const file = path.resolve(named)
  return isProgram(file) ? file : undefined
}
