select hex(i.consumer) as consumer, hex(i.`key`) as `key`
from json_table(?, '$[*]' columns (
  consumer varchar(800) character set ascii path '$[0]', hexadecimal varchar(1024) character set ascii path '$[1]'
)) as found
straight_join `txbox_dedup_leases` as i force index (primary)
  on i.consumer = unhex(found.consumer) and i.`key` = unhex(found.hexadecimal)
where i.expires_at <= utc_timestamp(6)
for update skip locked
