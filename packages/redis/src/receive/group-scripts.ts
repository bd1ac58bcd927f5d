import { script } from '../connection/script.ts'

/*
 * In a group of a stream, each delivery that is not settled is pending under the name of its consumer. Each script asks for that name
 * first: a consumer whose lease has expired must not settle a delivery that another one has received.
 *
 * An entry that waits for another attempt stays pending, under the name of the holder, and its id is in a sorted set by the time at
 * which the entry is due. All times are the server's.
 *
 * XCLAIM drops the pending delivery of an entry that was deleted. The scripts answer 0 for a delivery that is not the consumer's, 1
 * for one that is, and 2 if its entry is gone.
 */

const OWNED = `
local function owned(id)
  return redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1, ARGV[2])[1]
end
`

const NOW = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
`

/**
 * Takes the entries that are due, and the entries that have been pending for a lease without a sign of their consumer. A due entry
 * that is not pending under the name of the holder is left to its consumer: the group may be a new one of the same name, or an
 * operator has claimed the entry.
 *
 * KEYS: stream, due times. ARGV: group, consumer, holder, lease in milliseconds, limit, cursor, and the least number of entries left
 * by others to look for: those beyond the limit become due. Returns the entries with their counts of deliveries, the ids of entries
 * that are gone, and the next cursor.
 */
export const CLAIM = script(`${NOW}
local taken, gone = {}, {}
local limit = tonumber(ARGV[5])
local function take(id)
  local pending = redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1, ARGV[3])[1]
  if not pending then return end
  local entry = redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, id)[1]
  if entry then
    taken[#taken + 1] = {entry[1], entry[2], pending[4] + 1}
  else
    redis.call('XACK', KEYS[1], ARGV[1], id)
    gone[#gone + 1] = id
  end
end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, limit)) do
  redis.call('ZREM', KEYS[2], id)
  take(id)
end
if #taken >= limit then return {taken, gone, ARGV[6]} end
local left = redis.call('XAUTOCLAIM', KEYS[1], ARGV[1], ARGV[3], ARGV[4], ARGV[6], 'COUNT', math.max(limit, ARGV[7]), 'JUSTID')
for _, id in ipairs(left[2]) do
  if not redis.call('ZSCORE', KEYS[2], id) then
    if #taken < limit then take(id) else redis.call('ZADD', KEYS[2], now, id) end
  end
end
for _, id in ipairs(left[3] or {}) do
  redis.call('ZREM', KEYS[2], id)
  gone[#gone + 1] = id
end
return {taken, gone, left[1]}
`)

/**
 * Asks once for all that is pending from the first id to the last one: the ids come in the order of the stream nearly always. An id that
 * is not in the answer is asked for alone. XACK takes the ids in parts, because Lua passes no more than some thousand arguments.
 *
 * KEYS: stream. ARGV: group, consumer, '1' to delete the entries, ids. Returns 0 or 1 for each id.
 */
export const ACCEPT = script(`${OWNED}
local ours, results, accepted = {}, {}, {}
local most = 2 * (#ARGV - 3)
for _, pending in ipairs(redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[4], ARGV[#ARGV], most, ARGV[2])) do
  ours[pending[1]] = true
end
for n = 4, #ARGV do
  local is = ours[ARGV[n]] or owned(ARGV[n])
  results[n - 3] = is and 1 or 0
  if is then accepted[#accepted + 1] = ARGV[n] end
end
for n = 1, #accepted, 1000 do
  local last = math.min(n + 999, #accepted)
  redis.call('XACK', KEYS[1], ARGV[1], unpack(accepted, n, last))
  if ARGV[3] == '1' then redis.call('XDEL', KEYS[1], unpack(accepted, n, last)) end
end
return results
`)

/** KEYS: stream. ARGV: group, consumer, ids. Returns 0, 1 or 2 for each id. */
export const EXTEND = script(`${OWNED}
local results = {}
for n = 3, #ARGV do
  local id = ARGV[n]
  if not owned(id) then
    results[#results + 1] = 0
  else
    local is = redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, id, 'JUSTID')[1]
    results[#results + 1] = is and 1 or 2
  end
end
return results
`)

/** KEYS: stream, due times. ARGV: group, consumer, holder, id, the deliveries that count, delay in milliseconds. */
export const PUT_BACK = script(`${OWNED}${NOW}
local id = ARGV[4]
if not owned(id) then return 0 end
local is = redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[3], 0, id, 'RETRYCOUNT', ARGV[5], 'JUSTID')[1]
if not is then return 2 end
redis.call('ZADD', KEYS[2], now + ARGV[6], id)
return 1
`)

/**
 * KEYS: stream, stream of dead letters. ARGV: group, consumer, id, '1' to delete the entry, '1' if the entry is gone, names and values of
 * fields.
 */
export const REJECT = script(`${OWNED}
local id = ARGV[3]
if ARGV[5] ~= '1' and not owned(id) then return 0 end
redis.call('XADD', KEYS[2], '*', unpack(ARGV, 6))
redis.call('XACK', KEYS[1], ARGV[1], id)
if ARGV[4] == '1' then redis.call('XDEL', KEYS[1], id) end
return 1
`)

/**
 * Returns all deliveries of a consumer, uncounted. A consumer that is removed must have none, because its pending deliveries would be
 * removed with it.
 *
 * KEYS: stream, due times. ARGV: group, consumer, holder, '1' to remove the consumer. Returns the ids of entries that are gone.
 */
export const LEAVE = script(`${NOW}
local from = '-'
local gone = {}
while true do
  local page = redis.call('XPENDING', KEYS[1], ARGV[1], from, '+', 1000, ARGV[2])
  if #page == 0 then break end
  for _, pending in ipairs(page) do
    local count = math.max(0, pending[4] - 1)
    local is = redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[3], 0, pending[1], 'RETRYCOUNT', count, 'JUSTID')[1]
    if is then redis.call('ZADD', KEYS[2], now, pending[1]) else gone[#gone + 1] = pending[1] end
    from = '(' .. pending[1]
  end
end
if ARGV[4] == '1' and #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2]) == 0 then
  redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
end
return gone
`)

/**
 * Removes consumers that have nothing pending: those of processes that were killed would stay forever.
 *
 * KEYS: stream. ARGV: group, how their names begin, how long they have been idle, in milliseconds.
 */
export const TIDY = script(`
for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local about = {}
  for n = 1, #consumer, 2 do about[consumer[n]] = consumer[n + 1] end
  local isOurs = string.sub(about['name'], 1, #ARGV[2]) == ARGV[2]
  if isOurs and about['pending'] == 0 and about['idle'] > tonumber(ARGV[3]) then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], about['name'])
  end
end
return 1
`)
