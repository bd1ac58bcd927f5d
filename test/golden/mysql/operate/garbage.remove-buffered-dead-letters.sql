delete w
from json_table(?, '$[*]' columns (
  consumer varchar(800) character set ascii path '$[0]', hexadecimal varchar(2040) character set ascii path '$[1]',
  version bigint path '$[2]'
)) as locked
straight_join `txbox_waiting` as w force index (primary)
  on w.consumer = unhex(locked.consumer) and w.`key` = unhex(locked.hexadecimal) and w.from_version = locked.version
