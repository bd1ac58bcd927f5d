delete from `txbox_inbox`
where consumer = ? and claim_token = ? and `key` in (?)
