insert into `txbox_inbox` (consumer, `key`, correlation_id, processed_at, expires_at, result, content_hash, claim_token)
values (?, ?, ?, utc_timestamp(6), utc_timestamp(6) + interval ? microsecond, ?, ?, ?),(?, ?, ?, utc_timestamp(6), utc_timestamp(6) + interval ? microsecond, ?, ?, ?)
on duplicate key update
  claim_token = if(last_insert_id(length(`txbox_inbox`.consumer)) and `txbox_inbox`.expires_at <= utc_timestamp(6), values(claim_token), `txbox_inbox`.claim_token),
  correlation_id = if(`txbox_inbox`.expires_at <= utc_timestamp(6), values(correlation_id), `txbox_inbox`.correlation_id),
  result = if(`txbox_inbox`.expires_at <= utc_timestamp(6), values(result), `txbox_inbox`.result),
  content_hash = if(`txbox_inbox`.expires_at <= utc_timestamp(6), values(content_hash), `txbox_inbox`.content_hash),
  processed_at = if(`txbox_inbox`.expires_at <= utc_timestamp(6), values(processed_at), `txbox_inbox`.processed_at),
  expires_at = if(`txbox_inbox`.expires_at <= utc_timestamp(6), values(expires_at), `txbox_inbox`.expires_at)
