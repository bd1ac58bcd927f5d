select cast(concat(trx_mysql_thread_id, ' ', trx_started) as char) as id
from information_schema.innodb_trx
where trx_mysql_thread_id <> connection_id() and trx_mysql_thread_id > 0
