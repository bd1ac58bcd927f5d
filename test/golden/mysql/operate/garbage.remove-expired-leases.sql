delete i
from json_table(?, '$[*]' columns (
  consumer varchar(800) character set ascii path '$[0]', hexadecimal varchar(1024) character set ascii path '$[1]'
)) as locked
straight_join `txbox_dedup_leases` as i force index (primary)
  on i.consumer = unhex(locked.consumer) and i.`key` = unhex(locked.hexadecimal)
