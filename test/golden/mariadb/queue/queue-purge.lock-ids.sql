select hex(i.`key`) as `key`
from json_table(?, _utf8mb4'$[*]' columns (hexadecimal varchar(1024) character set ascii path _utf8mb4'$')) as j
straight_join `txbox_inbox` as i force index (primary) on i.consumer = ? and i.`key` = unhex(j.hexadecimal)
for update skip locked
