(select ? as shard, 1 as due from `txbox_parked` as p where p.shard = ? and p.due_at <= utc_timestamp(6) limit 1)
