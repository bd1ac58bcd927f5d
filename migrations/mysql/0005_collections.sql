-- 0005 collections: what the last garbage collection removed, and when.
-- Safe to run again, also after an interruption. There is one row; a collector that finds it locked skips it.

create table if not exists txbox_collections (
  id tinyint unsigned not null,
  finished_at datetime(6),
  inbox bigint unsigned,
  dead_letters bigint unsigned,
  duration_ms bigint unsigned,
  primary key (id)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;

insert into txbox_collections (id) values (1) on duplicate key update id = 1;

insert into txbox_migrations (number, title, applied_at) values (5, 'collections', utc_timestamp(6))
  on duplicate key update title = 'collections';
