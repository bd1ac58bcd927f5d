import path from 'node:path'
import { isProgram } from './is-program.ts'

/**
 * The command that `TXBOX_TEST_KAFKA` names. It runs a Kafka of one broker on 127.0.0.1: `start PORT`, `restart PORT`, which keeps the
 * data, `stop PORT`, and `kill`, `freeze` and `thaw PORT` (SIGKILL, SIGSTOP, SIGCONT). It keeps its state in the folder `KAFKA_HOME`. The
 * port takes clients without a login, who may do everything; the next port asks for a login by SASL; the one after it is TLS with the same
 * logins. The user `txbox` with the password `txbox-secret` may do everything, the user `limited` with `limited-secret` nothing. The
 * certificate, which is for 127.0.0.1 and localhost and is its own authority, is `data-PORT/cert.pem` in `KAFKA_HOME`.
 */
export function findKafkaProgram(): string | undefined {
  const named = process.env['TXBOX_TEST_KAFKA']
  if (named === undefined || named === '') return undefined
  const file = path.resolve(named)
  return isProgram(file) ? file : undefined
}
