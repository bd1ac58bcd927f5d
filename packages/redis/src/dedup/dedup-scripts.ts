import { script } from '../connection/script.ts'

/*
 * A key holds `l:<owner>` while a delivery is handled, and `d:<owner>:<milliseconds>:<result>` afterwards. A client may resend
 * a command whose answer was lost, so `begin` and `complete` give the same owner the same answer again.
 */

/** KEYS: the claim. ARGV: owner, lease in milliseconds. */
export const BEGIN = script(`
local value = redis.call('GET', KEYS[1])
if not value or value == 'l:' .. ARGV[1] then
  redis.call('SET', KEYS[1], 'l:' .. ARGV[1], 'PX', ARGV[2])
  return {'won'}
end
if string.sub(value, 1, 2) == 'l:' then
  return {'in-flight', tostring(redis.call('PTTL', KEYS[1]))}
end
return {'done', value}
`)

/** KEYS: the claim. ARGV: owner, retention in milliseconds, result or the empty text. */
export const COMPLETE = script(`
local value = redis.call('GET', KEYS[1])
local mark = 'd:' .. ARGV[1] .. ':'
if value == 'l:' .. ARGV[1] then
  local now = redis.call('TIME')
  local ms = now[1] .. string.format('%03d', math.floor(now[2] / 1000))
  redis.call('SET', KEYS[1], mark .. ms .. ':' .. ARGV[3], 'PX', ARGV[2])
  return 'completed'
end
if value and string.sub(value, 1, #mark) == mark then
  return 'completed'
end
return 'stale'
`)

/** KEYS: the claim. ARGV: owner, the new lease in milliseconds, or 0 to delete the claim. */
export const KEEP = script(`
if redis.call('GET', KEYS[1]) ~= 'l:' .. ARGV[1] then
  return 'stale'
end
if ARGV[2] == '0' then
  redis.call('DEL', KEYS[1])
else
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 'kept'
`)
