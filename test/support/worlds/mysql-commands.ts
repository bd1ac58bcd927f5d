/** The bytes before the contents of a packet: the length of the contents, and a number. */
const HEADER_BYTES = 4

const STMT_EXECUTE = 0x17
const STMT_CLOSE = 0x19

/** The statement that was prepared last (MariaDB): an execution that is sent together with its preparation. */
const LAST_PREPARED = 0xffff_ffff

/** The commands of one client of MySQL's protocol. */
export class MysqlCommands {
  /** The rest of a packet whose beginning was in earlier bytes. */
  #left = 0
  #leftWaits = false

  /**
   * Whether the client waited for the server's answer before it sent these bytes, or will wait for an answer to them: all
   * bytes but the execution of a statement that is sent right behind its preparation, and the closing of a statement,
   * which has no answer. When these bytes arrive beside other bytes, and when not, is a matter of chance.
   */
  waitForAnswer(bytes: Buffer): boolean {
    let waits = this.#left > 0 && this.#leftWaits
    let at = this.#left
    while (at < bytes.length) {
      this.#leftWaits = !isSentWithoutWaiting(bytes.subarray(at))
      waits ||= this.#leftWaits
      // A header in two parts would be misread; a client writes a header at once.
      at += HEADER_BYTES + (bytes.length - at < 3 ? 0 : bytes.readUIntLE(at, 3))
    }
    this.#left = at - bytes.length
    return waits
  }
}

function isSentWithoutWaiting(packet: Buffer): boolean {
  if (packet.length < HEADER_BYTES + 5) return false
  const command = packet[HEADER_BYTES]
  if (command === STMT_CLOSE) return true
  return command === STMT_EXECUTE && packet.readUInt32LE(HEADER_BYTES + 1) === LAST_PREPARED
}
