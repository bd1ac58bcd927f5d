select hex(w.consumer) as consumer, hex(w.`key`) as `key`, cast(w.from_version as char) as from_version
from json_table(?, '$[*]' columns (
  consumer varchar(800) character set ascii path '$[0]', hexadecimal varchar(2040) character set ascii path '$[1]',
  version bigint path '$[2]'
)) as found
straight_join `txbox_waiting` as w force index (primary)
  on w.consumer = unhex(found.consumer) and w.`key` = unhex(found.hexadecimal) and w.from_version = found.version
where w.dead_at <= utc_timestamp(6) - interval ? microsecond
for update skip locked
