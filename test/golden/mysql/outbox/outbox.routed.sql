where (select count(distinct u.type) from `txbox_subscriptions` as u force index (primary) where u.type in (?)) = ?
