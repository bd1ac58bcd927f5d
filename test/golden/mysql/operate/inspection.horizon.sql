select cast(trx_mysql_thread_id as char) as id, cast(timestampdiff(second, trx_started, now()) as char) as age_s
from information_schema.innodb_trx
where trx_started <= now() - interval ? microsecond and trx_mysql_thread_id <> connection_id() and trx_mysql_thread_id > 0
order by trx_started
limit 5
