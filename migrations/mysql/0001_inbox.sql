-- 0001 inbox: one small row per claim. Its primary key detects duplicates.
-- Safe to run again, also after an interruption: every CREATE TABLE commits by itself on MySQL and MariaDB.

create table if not exists txbox_migrations (
  number int unsigned not null,
  title varchar(255) not null,
  applied_at datetime(6) not null,
  primary key (number)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;

-- varbinary: keys are compared byte for byte. utf8mb4_bin is not suitable, because it pads with spaces.
create table if not exists txbox_inbox (
  processed_at datetime(6) not null,
  expires_at datetime(6) not null,
  consumer varbinary(400) not null,
  `key` varbinary(512) not null,
  correlation_id varchar(255),
  result longtext,
  content_hash varbinary(32),
  -- Identifies the last writer of the row, when many keys are claimed at once.
  claim_token binary(16),
  primary key (consumer, `key`),
  -- For the collection of expired claims.
  key inbox_expires_at (expires_at)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_bin;

insert into txbox_migrations (number, title, applied_at) values (1, 'inbox', utc_timestamp(6))
  on duplicate key update title = 'inbox';
