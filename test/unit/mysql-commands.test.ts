import { expect, test } from 'vitest'
import { MysqlCommands } from '../support/worlds/mysql-commands.ts'

const QUERY = 0x03
const PREPARE = 0x16
const EXECUTE = 0x17
const CLOSE = 0x19

function packet(command: number, contents: Buffer): Buffer {
  const header = Buffer.alloc(4)
  header.writeUIntLE(1 + contents.length, 0, 3)
  return Buffer.concat([header, Buffer.from([command]), contents])
}

function statement(id: number, rest = Buffer.alloc(0)): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(id)
  return Buffer.concat([bytes, rest])
}

const close = packet(CLOSE, statement(7))
const executeLast = packet(EXECUTE, statement(0xffff_ffff, Buffer.alloc(100_000, 1)))

test('queries, preparations and executions of a known statement wait for an answer', () => {
  const commands = new MysqlCommands()
  expect(commands.waitForAnswer(packet(QUERY, Buffer.from('select 1')))).toBe(true)
  expect(commands.waitForAnswer(packet(PREPARE, Buffer.from('select ?')))).toBe(true)
  expect(commands.waitForAnswer(packet(EXECUTE, statement(7)))).toBe(true)
})

test('the closing of a statement, and the execution of the statement prepared last, are sent without waiting', () => {
  const commands = new MysqlCommands()
  expect(commands.waitForAnswer(close)).toBe(false)
  expect(commands.waitForAnswer(executeLast)).toBe(false)
  expect(commands.waitForAnswer(Buffer.concat([close, close]))).toBe(false)
  expect(commands.waitForAnswer(Buffer.concat([close, packet(PREPARE, Buffer.from('select ?'))]))).toBe(true)
})

test('a packet that arrives in parts counts as its beginning does', () => {
  const commands = new MysqlCommands()
  const query = packet(QUERY, Buffer.alloc(70_000, 1))
  const parts = [executeLast.subarray(0, 65_536), Buffer.concat([executeLast.subarray(65_536), close])]
  expect(parts.map((bytes) => commands.waitForAnswer(bytes))).toEqual([false, false])
  const others = [query.subarray(0, 65_536), query.subarray(65_536)]
  expect(others.map((bytes) => commands.waitForAnswer(bytes))).toEqual([true, true])
})
