select hex(i.`key`) as `key`, cast(i.claim_token <=> ? as char) as is_own, cast(timestampdiff(microsecond, '1970-01-01', i.processed_at) as char) as processed_at,
  cast(i.correlation_id as binary) as correlation_id, cast(i.result as binary) as result,
  hex(i.content_hash) as content_hash
from json_table(?, '$[*]' columns (hexadecimal varchar(1024) character set ascii path '$')) as asked
straight_join `txbox_inbox` as i force index (primary) on i.consumer = ? and i.`key` = unhex(asked.hexadecimal)
lock in share mode
